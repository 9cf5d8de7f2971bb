"""`holdfast pair`, `pairs` and `unpair`: access requests of unknown senders."""

from typing import Annotated

import typer

from holdfast.api.shapes.access import UnpairedOut, pair_view, pairs_view
from holdfast.cli.command import Invocation, Runtime, command, visitor
from holdfast.cli.options import OnlyAgent
from holdfast.cli.output import Output, TextTable, when
from holdfast.inbox.access import spelt
from holdfast.inbox.access_sql import is_admitted
from holdfast.kernel.ids import AgentName, Principal

BY = "the command line"


@command()
async def pair(
    invocation: Invocation,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code that the sender received.")],
    deny: Annotated[bool, typer.Option("--deny", help="Deny the request, permanently and without a notice.")] = False,
) -> Output:
    """Grant or deny an access request.

    The sender is notified that access was granted. Messages they sent before were not stored. A code is valid for one
    day.

    \b
    Examples:
      holdfast pair 7K2M-PQ9X
      holdfast pair 7K2M-PQ9X --deny
    """
    admit = not deny
    async with invocation.visiting(act="access.admitted" if admit else "access.denied", on=code) as runtime:
        found = await runtime.access.pair(code, admit=admit, by=BY)
    done = "may now talk to" if admit else "is denied access to"
    return Output(pair_view(found), f"{found.principal} {done} {found.agent}.")


@visitor()
async def pairs(runtime: Runtime, agent: OnlyAgent = None) -> Output:
    """List access requests, newest first.

    The name is chosen by the sender and proves nothing; the principal identifies the account.

    \b
    Examples:
      holdfast pairs
      holdfast pairs --agent main --json
    """
    found = await runtime.access.pairs(agent=agent)
    rows = (
        (spelt(one.code), one.agent, one.principal, one.name, one.state.value, when(one.asked_at), when(one.decided_at))
        for one in found
    )
    headings = ("code", "agent", "principal", "shown as", "state", "asked", "decided")
    return Output(pairs_view(found), TextTable(headings, rows))


@visitor(act="access.withdrawn", on="principal")
async def unpair(
    runtime: Runtime,
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="The account, such as telegram:123456789.")],
    agent: OnlyAgent = None,
) -> Output:
    """Revoke a sender's access.

    The sender may request access again. Allowlists in holdfast.toml are not changed.

    \b
    Examples:
      holdfast unpair telegram:123456789
    """
    gone = await runtime.access.unpair(principal, agent=agent, by=BY)
    asked = [agent] if agent is not None else gone or runtime.agents()
    still = [one for one in asked if await runtime.db.read(is_admitted(AgentName(one), Principal(principal)))]
    revoked = f"The access of {principal} to {', '.join(gone)} is revoked."
    text = [revoked if gone else f"{principal} was not paired; nothing changed."]
    if still:
        text.append(f"It still has access to {', '.join(still)} through a linked account: see `holdfast links`.")
    return Output(UnpairedOut(principal=principal, agents=list(gone)), *text)
