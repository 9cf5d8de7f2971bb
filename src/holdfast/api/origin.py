"""The origin of a request's message: a human, or a program that passes on an agent's reply (D12).

Rule 1: a message sent with a robot's token comes from a program. So does a message with a hop above zero, with any
        token.
Rule 2: a token with the scope `admin` may use every command, like a named operator.
Rule 3: a program that passes a reply on sends the `hop` that came with it, so a loop of agents ends at `hops_max`.
"""

from typing import Annotated

from msgspec import Meta

from holdfast.api.auth.access_token import Scope
from holdfast.api.auth.caller import Caller
from holdfast.api.endpoint import HttpCall
from holdfast.api.request import whole_number
from holdfast.inbox.message import Origin
from holdfast.sessions.command_rights import Rank

HEADER = "X-Holdfast-Hop"
Hop = Annotated[int, Meta(ge=0, le=10**15 - 1)]


def origin_of(call: HttpCall) -> Origin:
    """The origin of a request. Raises `InvalidInput` if the hop header is not a number."""
    told = call.request.headers.get(HEADER)
    return origin_by(call.caller, 0 if told is None else whole_number(f"the header {HEADER}", told))


def origin_by(caller: Caller, hop: int) -> Origin:
    rank = Rank.OPERATOR if caller.token.may(Scope.ADMIN) else Rank.MEMBER
    return Origin(human=not caller.token.robot and hop == 0, hop=hop, token=caller.token.id, rank=rank)
