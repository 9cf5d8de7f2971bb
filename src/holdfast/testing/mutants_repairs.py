"""Guarantees of what a person decides about deliveries, broken on purpose."""

from collections.abc import Sequence

from holdfast.memory import decided_sql
from holdfast.testing.areas import Area
from holdfast.testing.mutant import Patch, mutant

BUDGET = 200


@mutant("I7", budget=BUDGET, area=Area.REPAIRS, first=163)
def given_up_counts_as_never_sent() -> Sequence[Patch]:
    """A delivery that is given up is dropped, as if no attempt could have arrived."""
    return [(decided_sql, "GIVE_UP", decided_sql.GIVE_UP.replace("state = 'parked'", "state = 'dropped'"))]


@mutant("I7", budget=BUDGET, area=Area.REPAIRS, first=131)
def settled_beside_the_mark() -> Sequence[Patch]:
    """What a person settles does not move the mark of its cursor."""
    return [(decided_sql, "MARK", "update cursor set due_at = due_at where provider = :provider and stream = :stream")]
