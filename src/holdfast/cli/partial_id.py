"""Ids that a person gives in part or mistypes: what they stand for, or which ones are next to them."""

from holdfast.cli.command import Runtime
from holdfast.inbox.address import check_part
from holdfast.kernel.errors import HoldfastError, Remedy, SessionNotFound
from holdfast.kernel.ids import SessionId

NAMED_MAX = 5


class AmbiguousId(HoldfastError):
    """The id stands for several messages or sessions."""

    remedy = Remedy.CORRECT
    hint = "Use the id of one of them, more characters of it, or --agent and --chat."


async def session_named(runtime: Runtime, text: str) -> SessionId:
    """The session of that id, or the only one whose id begins so. Raises `SessionNotFound` and `AmbiguousId`."""
    from holdfast.monitor.find_session_sql import find_sessions

    wanted = check_part("session", text.strip())
    found, near = await runtime.db.read(find_sessions(wanted))
    if wanted in found or len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(found[:NAMED_MAX])
        raise AmbiguousId(f"the ids of several sessions begin with {wanted!r}", hint=f"They begin with: {named}.")
    hint = f"The nearest are {', '.join(near)}. " if near else ""
    raise SessionNotFound(
        f"there is no session {wanted!r}", session=wanted, hint=f"{hint}`holdfast sessions` lists all."
    )
