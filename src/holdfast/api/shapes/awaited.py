"""The JSON shape of an approval that a message waits for."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.api.shapes.view import view_of
from holdfast.turns.approval import OpenQuestion


class Awaited(Struct, frozen=True, kw_only=True):
    """The approval that a message waits for; `/approve <approval>` or `/deny <approval>` in its chat decides it.

    If `cut` is true, `text` omits a part of the arguments. `GET /v1/approvals/{approval}` shows all of them and the
    digest, and approving takes `/approve <approval> <digest>`.
    """

    approval: str
    tool: str
    text: str
    due_at: int  # when it counts as denied
    cut: bool = False


awaited_view: Callable[[OpenQuestion], Awaited] = view_of(Awaited, approval="id")
