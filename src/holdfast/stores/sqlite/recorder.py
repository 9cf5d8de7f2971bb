"""Write an action into a file that no store has open: the row of an act that exchanges the store's own file."""

from collections.abc import Callable, Mapping

import apsw

from holdfast.core.action import Act, By
from holdfast.ports.clock import Clock
from holdfast.stores.sqlite.batch import Call, run_batch
from holdfast.stores.verbs import actions

SUBJECT = "data folder"


def recorder(by: By, clock: Clock) -> Callable[[apsw.Connection, Act, Mapping[str, object]], None]:
    """A function that records an act upon the data folder, in the name of `by`, in a transaction of its own."""

    def record(db: apsw.Connection, act: Act, detail: Mapping[str, object]) -> None:
        (done,) = run_batch(db, [Call("record_action", lambda: actions.record(act, by, SUBJECT, **detail))], clock)
        if done.error is not None:
            raise done.error

    return record
