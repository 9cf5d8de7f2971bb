"""What is written while the power fails, and how the disk is judged afterwards.

Every script writes the same number into two tables, so a torn script shows as a disagreement, and a body
that follows from the number, so a torn page shows too. `Ledger` knows which numbers were acknowledged, which
were refused and which were merely asked for.

The bodies look random on purpose. SQLite's checksum of the log is linear: where old and new bodies differ in
one byte of each word only, a torn frame can pass it. test_log_checksum.py shows that; it is no fault of the
engine, and it would hide one.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import apsw

from holdfast.kernel.errors import HoldfastError, InvalidInput
from holdfast.kernel.ids import Instant
from holdfast.store.script import Call, Many, Script, run
from holdfast.store.sqlite.connection import open_connection
from holdfast.store.sqlite.migrate import migrate
from holdfast.testing.inline_database import InlineDatabase
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


Body = Callable[[int, int], bytes]


def random_body(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


def keep(number: int, size: int = 100, body_of: Body = random_body) -> Callable[[], Script[int]]:
    def script() -> Script[int]:
        body = body_of(number, size)
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
    def __init__(self, body_of: Body = random_body) -> None:
        self.body_of = body_of
        self.asked: set[int] = set()
        self.sizes: dict[int, int] = {}
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self.errors: list[HoldfastError] = []

    def body(self, number: int, found: bytes) -> bytes:
        """What was asked to be kept under this number; a body of another length is wrong as well."""
        return self.body_of(number, self.sizes.get(number, len(found)))

    async def keep(self, db: InlineDatabase, number: int, size: int = 100) -> None:
        self.asked.add(number)
        self.sizes[number] = size
        try:
            self.acknowledged.add(await db.write(Call("keep", keep(number, size, self.body_of))))
        except HoldfastError as error:
            self.errors.append(error)

    async def refuse(self, db: InlineDatabase, number: int) -> None:
        self.refused.add(number)
        try:
            await db.write(Call("refuse", refuse(number)))
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
    kept = {name: {row[0]: row[1] for row in db.execute(f"select n, body from {name}")} for name in ("turn", "outbox")}
    turns, outbox = set(kept["turn"]), set(kept["outbox"])
    wrong = [(name, n) for name, bodies in kept.items() for n, body in bodies.items() if body != ledger.body(n, body)]
    found = {
        f"integrity: {integrity[:1]}": integrity != [("ok",)],
        f"another body: {wrong}": bool(wrong),
        f"half a script: {sorted(turns ^ outbox)}": turns != outbox,
        f"acknowledged and lost: {sorted(ledger.acknowledged - turns)}": bool(ledger.acknowledged - turns),
        f"refused and kept: {sorted(turns & ledger.refused)}": bool(turns & ledger.refused),
        f"never asked for: {sorted(turns - ledger.asked)}": bool(turns - ledger.asked - ledger.refused),
    }
    return [complaint for complaint, is_so in found.items() if is_so]
