"""Whose words a request brings: a human's, or those of a program that passes on what an agent said (D12).

Rule 1: what comes with a robot's token is a program's. So is what says that it was passed on, whatever its token.
Rule 2: whoever may administrate may give every command, as a named operator does.
Rule 3: whoever passes a reply on says so, with the `hop` that came with it; so a circle of agents ends at `hops_max`.
"""

from typing import Annotated

from msgspec import Meta
from starlette.requests import Request

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.caller import Caller
from holdfast.api.endpoint import caller_of
from holdfast.api.request import whole_number
from holdfast.inbox.message import Origin
from holdfast.sessions.command_rights import Rank

HEADER = "X-Holdfast-Hop"
Hop = Annotated[int, Meta(ge=0, le=10**15 - 1)]


def origin_of(request: Request) -> Origin:
    """Raises `InvalidInput` for a header that is no number."""
    told = request.headers.get(HEADER)
    return origin_by(caller_of(request), 0 if told is None else whole_number(f"the header {HEADER}", told))


def origin_by(caller: Caller, hop: int) -> Origin:
    rank = Rank.OPERATOR if caller.token.may(Scope.ADMIN) else Rank.MEMBER
    return Origin(human=not caller.token.robot and hop == 0, hop=hop, token=caller.token.id, rank=rank)
