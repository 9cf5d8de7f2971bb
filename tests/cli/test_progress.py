"""The promise: work that takes long tells how far it is, on a terminal and off it; what is quick, and a broken stderr,
tell nothing."""

import io
from threading import Event

import pytest

from holdfast.cli.progress import CLEAR_LINE, Progress

HANGS_S = 20


class Stream(io.StringIO):
    """Says when something was written to it."""

    def __init__(self, *, terminal=False):
        super().__init__()
        self.terminal = terminal
        self.told = Event()

    def isatty(self):
        return self.terminal

    def write(self, text):
        super().write(text)
        self.told.set()
        return len(text)


class Broken(Stream):
    def write(self, text):
        self.told.set()
        raise BrokenPipeError


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def begun(stream, total=None, *, quick_s=0.0):
    clock = Clock()
    shown = Progress("replay", total, stream=stream, clock=clock, quick_s=quick_s)
    shown.advance(150)
    clock.now = 8.0
    shown.begin()
    return shown


def test_off_a_terminal_it_is_a_line_of_its_own():
    stream = Stream()
    shown = begun(stream, 700)
    assert stream.told.wait(HANGS_S)
    shown.end()
    assert stream.getvalue() == "replay: 150 of 700 (21 %), 8 s\n"


def test_on_a_terminal_it_is_redrawn_and_removed_at_the_end():
    stream = Stream(terminal=True)
    shown = begun(stream, 700)
    assert stream.told.wait(HANGS_S)
    shown.end()
    assert stream.getvalue().startswith(f"{CLEAR_LINE}replay: 150 of 700 (21 %), 8 s")
    assert stream.getvalue().endswith(CLEAR_LINE)


def test_what_is_quick_tells_nothing():
    stream = Stream()
    begun(stream, 700, quick_s=HANGS_S).end()
    assert stream.getvalue() == ""


def test_a_broken_stream_does_not_matter():
    stream = Broken()
    shown = begun(stream)
    assert stream.told.wait(HANGS_S)
    shown.end()


@pytest.mark.parametrize(("done", "line"), [(0, "rebuild: at work, 8 s"), (3, "rebuild: 3 done, 8 s")])
def test_without_a_total_it_counts_what_is_done(done, line):
    clock = Clock()
    shown = Progress("rebuild", stream=Stream(), clock=clock)
    shown.advance(done)
    clock.now = 8.0
    assert shown.line() == line
