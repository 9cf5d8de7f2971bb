"""Delivery: which entries become due for which provider. A unit is a range of the journal, never a copy.

Rule 1: a unit never spans a change of place or principal (D18).
Rule 2: scheduling moves `scheduled_seq` by compare-and-set; what is beyond it is pending by definition, so no
        buffer exists that could be lost.
Rule 3: an undone turn is passed over; a boundary schedules everything that is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.ids import Principal, Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    provider: Provider
    every_turns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSpan:
    """A committed turn that no unit holds yet."""

    n: int
    first_seq: int
    last_seq: int
    place: str
    principal: Principal
    undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    from_turn: int
    through_turn: int
    from_seq: int
    through_seq: int
    place: str
    principal: Principal


def due_units(pending: Sequence[TurnSpan], policy: DeliveryPolicy, *, boundary: bool) -> tuple[Unit, ...]:
    """The units that are due now. All pending turns become due together, or none of them."""
    counted = [span for span in pending if not span.undone]
    if not counted or (len(counted) < policy.every_turns and not boundary):
        return ()
    units: list[Unit] = []
    for span in counted:
        last = units[-1] if units else None
        if last and (last.place, last.principal) == (span.place, span.principal) and last.through_turn == span.n - 1:
            units[-1] = Unit(
                from_turn=last.from_turn,
                through_turn=span.n,
                from_seq=last.from_seq,
                through_seq=span.last_seq,
                place=span.place,
                principal=span.principal,
            )
        else:
            units.append(
                Unit(
                    from_turn=span.n,
                    through_turn=span.n,
                    from_seq=span.first_seq,
                    through_seq=span.last_seq,
                    place=span.place,
                    principal=span.principal,
                )
            )
    return tuple(units)
