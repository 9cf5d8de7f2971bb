"""The outside surface of a question that waits for a human, as a message tells of it. The rest is in surface.py."""

from msgspec import Struct

from holdfast.turns.approval import OpenQuestion


class Awaited(Struct, frozen=True, kw_only=True):
    """The approval that a message waits for; `/approve <approval>` or `/deny <approval>` in its chat decides it.

    Where `cut` is true, `text` leaves out a part of the arguments. `GET /v1/approvals/{approval}` shows all of them,
    and approving takes `/approve <approval> <digest>` with the digest from there.
    """

    approval: str
    tool: str
    text: str
    due_at: int  # when it counts as denied
    cut: bool = False


def awaited_view(asked: OpenQuestion) -> Awaited:
    return Awaited(approval=asked.id, tool=asked.tool, text=asked.text, due_at=asked.due_at, cut=asked.cut)
