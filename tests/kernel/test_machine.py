"""Chance is taken in stocks and never given twice: not to two threads, and not to a process and its child."""

import os
import threading

import pytest

from holdfast.kernel.machine import PIECE_BYTES, STOCK_PIECES, SystemEntropy


def test_pieces_have_exactly_the_bits_asked_for_and_use_all_of_them():
    entropy = SystemEntropy()
    for count in (1, 53, 80, PIECE_BYTES * 8, 256):
        drawn = [entropy.bits(count) for _ in range(200)]
        assert max(drawn).bit_length() <= count
        assert max(drawn).bit_length() > count - 8 or count == 1
    assert all(0 <= entropy.fraction() < 1 for _ in range(200))


def test_threads_that_draw_at_once_draw_different_pieces():
    entropy, drawn, start = SystemEntropy(), [], threading.Barrier(4)

    def draw():
        start.wait()
        drawn.extend([entropy.bits(80) for _ in range(3 * STOCK_PIECES)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 4 * 3 * STOCK_PIECES


def test_a_source_of_entropy_leaves_no_fork_hook_behind(monkeypatch):
    """A library's user may open and close a runtime a million times; what is told to a fork is never untold."""
    told = []
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: told.append(hooks))
    assert SystemEntropy().bits(80) != SystemEntropy().bits(80)
    assert told == []


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of forking beside threads, which is the point
def test_a_child_process_does_not_draw_what_its_parent_draws():
    if not hasattr(os, "fork"):
        return
    entropy = SystemEntropy()
    entropy.bits(80)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, entropy.bits(80).to_bytes(10, "big"))
        os._exit(0)
    os.close(writing)
    theirs = os.read(reading, 10)
    os.close(reading)
    os.waitpid(child, 0)
    assert int.from_bytes(theirs, "big") not in [entropy.bits(80) for _ in range(STOCK_PIECES)]
