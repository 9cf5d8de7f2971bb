"""Records an action in a database file that no engine has open: for acts that replace the store's own file."""

from collections.abc import Callable, Mapping

import apsw

from holdfast.audit import action_sql
from holdfast.audit.action import Act, By
from holdfast.kernel.ports import Clock
from holdfast.store.script import Call
from holdfast.store.sqlite.batch import run_batch

SUBJECT = "data folder"


def recorder(by: By, clock: Clock) -> Callable[[apsw.Connection, Act, Mapping[str, object]], None]:
    """Return a function that records an act on the data folder by `by`, in its own transaction."""

    def record(db: apsw.Connection, act: Act, detail: Mapping[str, object]) -> None:
        (done,) = run_batch(db, [Call("record_action", lambda: action_sql.record(act, by, SUBJECT, **detail))], clock)
        if done.error is not None:
            raise done.error

    return record
