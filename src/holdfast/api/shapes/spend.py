"""The JSON shapes of model costs."""

from collections.abc import Callable, Sequence

from holdfast.api.shapes.shapes import Shape
from holdfast.api.shapes.view import view_of
from holdfast.turns.spend import SpendTotal, dollars


class SpendLine(Shape, frozen=True, kw_only=True):
    """The cost of one agent on one model for one kind of task: reply, summary or extract."""

    agent: str
    model: str
    task: str
    answers: int
    tokens_in: int
    tokens_out: int
    cost_micros: int


class Spending(Shape, frozen=True, kw_only=True):
    """Days are in UTC and include today. Amounts are in millionths of a dollar; `total` is formatted for people."""

    days: int
    lines: list[SpendLine]
    total_micros: int
    total: str


line_view: Callable[[SpendTotal], SpendLine] = view_of(SpendLine)


def spending_view(found: Sequence[SpendTotal], days: int) -> Spending:
    total = sum(one.cost_micros for one in found)
    return Spending(days=days, lines=[line_view(one) for one in found], total_micros=total, total=dollars(total))
