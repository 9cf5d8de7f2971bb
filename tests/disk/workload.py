"""What is written while the power fails, and how the disk is judged afterwards.

Every script writes the same number into two tables, so a torn script shows as a disagreement. `Ledger`
knows which numbers were acknowledged, which were refused and which were merely asked for.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import apsw

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.ids import Instant
from holdfast.stores.script import Many, Script, run
from holdfast.stores.sqlite.connection import open_connection
from holdfast.stores.sqlite.inline import InlineDatabase
from holdfast.stores.sqlite.migrate import migrate
from tests.disk.disk import VFS_NAME, Disk, Image, mounted

SCHEMA = (
    """
    create table turn (n integer primary key, body blob not null, at integer) strict;
    create table outbox (n integer primary key, body blob not null) strict;
    """,
)


class FrozenClock:
    def now(self) -> Instant:
        return Instant(1_000)


def keep(number: int, size: int = 100) -> Callable[[], Script[int]]:
    def script() -> Script[int]:
        body = number.to_bytes(4, "big") * (size // 4)
        yield from run("insert into turn values (:n, :body, :now)", n=number, body=body)
        yield Many("insert into outbox values (:n, :body)", [{"n": number, "body": body}])
        return number

    return script


def refuse(number: int) -> Callable[[], Script[int]]:
    def script() -> Script[int]:
        yield from run("insert into turn values (:n, x'00', :now)", n=number)
        raise InvalidInput(f"{number} is refused after its first statement")

    return script


class Ledger:
    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.errors: list[HoldfastError] = []

    async def keep(self, db: InlineDatabase, number: int, size: int = 100) -> None:
        self.asked.add(number)
        try:
            self.acknowledged.add(await db.write("keep", keep(number, size)))
        except HoldfastError as error:
            self.errors.append(error)

    async def refuse(self, db: InlineDatabase, number: int) -> None:
        self.refused.add(number)
        try:
            await db.write("refuse", refuse(number))
        except HoldfastError as error:
            self.errors.append(error)


def open_on(path: str, synchronous: str = "extra") -> InlineDatabase:
    return InlineDatabase(path, FrozenClock(), migrations=SCHEMA, vfs=VFS_NAME, exclusive=True, synchronous=synchronous)


Workload = Callable[[Ledger, Callable[[], InlineDatabase]], Coroutine[Any, Any, None]]


async def one_by_one(ledger: Ledger, start: Callable[[], InlineDatabase]) -> None:
    db = start()
    for number in range(16):
        await ledger.keep(db, number, size=200 + number * 997 % 5_000)
    await db.close()


async def in_groups(ledger: Ledger, start: Callable[[], InlineDatabase]) -> None:
    """Group commits of growing size, each with a script in the middle that is refused."""
    db = start()
    for group in range(1, 7):
        numbers = range(group * 10, group * 10 + group)
        refusal = ledger.refuse(db, group * 10 + 9)
        await asyncio.gather(*(ledger.keep(db, n, 900) for n in numbers), refusal, ledger.keep(db, group * 100))
    await db.close()


async def with_checkpoints(ledger: Ledger, start: Callable[[], InlineDatabase]) -> None:
    """The log is moved and begun again from the front, over frames of an earlier round."""
    db = start()
    for number in range(15):
        await ledger.keep(db, number, size=3_000)
        if number % 4 == 3:
            db.checkpoint()
        if number == 9:
            db.checkpoint(truncate=True)
    await db.close()


async def across_restarts(ledger: Ledger, start: Callable[[], InlineDatabase]) -> None:
    """A clean end removes the log and a new start makes another; an unclean one leaves it to recover."""
    for life in range(5):
        db = start()
        for number in range(life * 10, life * 10 + 3):
            await ledger.keep(db, number, size=1_500)
        await db.close() if life % 2 else db.crash()


WORKLOADS: dict[str, Workload] = {
    "one by one": one_by_one,
    "in groups": in_groups,
    "with checkpoints": with_checkpoints,
    "across restarts": across_restarts,
}


def run_on(disk: Disk, workload: Workload, ledger: Ledger, synchronous: str = "extra") -> None:
    """Run a workload to its end; faults of the disk end up in the ledger or are raised."""
    opened: list[InlineDatabase] = []

    def start() -> InlineDatabase:
        opened.append(open_on(path, synchronous))
        return opened[-1]

    with mounted(disk) as path:
        try:
            asyncio.run(workload(ledger, start))
        finally:
            for db in opened:
                db.crash()  # harmless where the workload came to its end


def judge(image: Image, ledger: Ledger, watch: Callable[[Disk], None] | None = None) -> list[str]:
    """Start on what the power loss left and say everything that is wrong with it.

    `watch` is given the disk before recovery begins, to let the power fail again meanwhile.
    """
    disk = Disk(image)
    if watch:
        watch(disk)
    with mounted(disk) as path:
        try:
            db = open_connection(path, vfs=VFS_NAME, exclusive=True)
            try:
                migrate(db, path, SCHEMA)
                return complaints(db, ledger)
            finally:
                db.close(True)
        except (HoldfastError, apsw.Error) as error:
            return [f"does not open: {error!r}"]


def complaints(db: apsw.Connection, ledger: Ledger) -> list[str]:
    integrity = db.execute("pragma integrity_check").fetchall()
    turns = {row[0] for row in db.execute("select n from turn")}
    outbox = {row[0] for row in db.execute("select n from outbox")}
    found = {
        f"integrity: {integrity[:1]}": integrity != [("ok",)],
        f"half a script: {sorted(turns ^ outbox)}": turns != outbox,
        f"acknowledged and lost: {sorted(ledger.acknowledged - turns)}": bool(ledger.acknowledged - turns),
        f"refused and kept: {sorted(turns & ledger.refused)}": bool(turns & ledger.refused),
        f"never asked for: {sorted(turns - ledger.asked)}": bool(turns - ledger.asked - ledger.refused),
    }
    return [complaint for complaint, is_so in found.items() if is_so]
