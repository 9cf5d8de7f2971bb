"""Print the way of one message through the code: `make walk`.

    python -m tools.walk            one line per function that a message meets for the first time, then the totals
    python -m tools.walk --json     the totals only, for a comparison

Two messages are answered and delivered to memory beforehand, one that memory keeps and one that asks it, so that work
which happens only once is left out. Then every call of a function of Holdfast is counted, in every thread, from sending
a third message until its reply is there and each provider has its turn. A crossing is a call from a file of one folder
to a file of another.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import apsw

import holdfast
from holdfast.runtime.app import DATABASE
from holdfast.runtime.runtime import Runtime

SRC = Path(holdfast.__file__).parent
UNSETTLED = """
select 1 from cursor join session on session.id = cursor.stream where settled_seq < committed_seq limit 1"""
LOOK_EVERY_S = 0.05
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}


@dataclass
class Walk:
    """What was called between the begin and the end of a message."""

    calls: int = 0
    crossings: int = 0
    functions: dict[CodeType, int] = field(default_factory=dict)  # in the order of their first call
    places: dict[str, str] = field(default_factory=dict)

    def place(self, code: CodeType) -> str:
        """The file of a function below src/holdfast; empty for a function of anybody else."""
        known = self.places.get(code.co_filename)
        if known is None:
            path = Path(code.co_filename)
            known = path.relative_to(SRC).as_posix() if path.is_relative_to(SRC) else ""
            self.places[code.co_filename] = known
        return known

    def begin(self) -> None:
        self.calls = self.crossings = 0
        self.functions.clear()

    def see(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name in COMPREHENSIONS or not (place := self.place(code)):
            return
        if frame.f_lasti >= 0 and code.co_code[frame.f_lasti + 1]:
            return  # a generator or a coroutine that goes on: the argument of its RESUME is not 0
        self.calls += 1
        self.functions[code] = self.functions.get(code, 0) + 1
        caller = frame.f_back
        while caller is not None and not self.place(caller.f_code):
            caller = caller.f_back
        if caller is not None and folder(self.place(caller.f_code)) != folder(place):
            self.crossings += 1

    @property
    def totals(self) -> dict[str, int]:
        files = {self.place(code) for code in self.functions}
        return {
            "calls": self.calls,
            "functions": len(self.functions),
            "files": len(files),
            "crossings": self.crossings,
        }


def folder(place: str) -> str:
    return place.rpartition("/")[0]


@contextmanager
def walking(walk: Walk) -> Iterator[None]:
    """Count in this thread and in every thread that Python has started."""
    threading.setprofile(walk.see)
    sys.setprofile(walk.see)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def delivered(store: Path) -> None:
    """Return when every provider has settled every turn. It looks past Holdfast's own code, which is being counted."""
    with closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        while database.execute(UNSETTLED).get:  # noqa: ASYNC110 - an event would be code that is counted
            await asyncio.sleep(LOOK_EVERY_S)


async def converse(runtime: Runtime, data: str, text: str) -> None:
    message = await runtime.send("ada", text)
    await runtime.reply_to(message)
    await delivered(Path(data) / DATABASE)


async def walk_once() -> Walk:
    walk = Walk()
    # Threads take their profile when they start, so it is set before the store's threads exist.
    with TemporaryDirectory() as data, walking(walk):
        async with holdfast.open(data) as runtime:
            await converse(runtime, data, "My cat is called Byron.")
            await converse(runtime, data, "How old is my cat?")
            walk.begin()
            await converse(runtime, data, "What is my cat called?")
            return replace(walk, functions=dict(walk.functions))  # closing the runtime is no part of the way


def main() -> None:
    walk = asyncio.run(walk_once())
    if "--json" in sys.argv[1:]:
        print(json.dumps(walk.totals))
        return
    for code, times in walk.functions.items():
        print(f"{walk.place(code):<36} {code.co_qualname:<56} {times:>5}")
    print("  ".join(f"{name} {count}" for name, count in walk.totals.items()))


if __name__ == "__main__":
    main()
