"""A context costs what is new in it: what was computed about earlier entries is carried over, and is never wrong."""

from collections.abc import Sequence

from holdfast.kernel.ids import Instant, SessionId
from holdfast.turns.context_memo import ContextMemo
from holdfast.turns.journal import Entry, UserSaid


def entry(seq: int, text: str = "Hello") -> Entry:
    body = UserSaid(text=text, principal="ada", message="m", event_id="e")
    return Entry(seq=seq, turn=seq, body=body, tokens=seq, at=Instant(0), session=SessionId("s"))


class Counting:
    """Renders entries and counts them."""

    def __init__(self) -> None:
        self.entries = 0

    def __call__(self, entries: Sequence[Entry]) -> list[str]:
        self.entries += len(entries)
        return [one.text for one in entries]


FIRST = tuple(entry(seq, f"Text {seq}") for seq in range(1, 101))
FRESH = (entry(101, "Text 101"), entry(102, "Text 102"))
BOTH = (*FIRST, *FRESH)


def test_rendering_costs_the_entries_that_were_closed_since():
    memo: ContextMemo[str] = ContextMemo()
    render = Counting()
    assert list(memo.rendered(FIRST, 98, named=False, render=render)) == [one.text for one in FIRST[:98]]
    later = memo.extended(FRESH, BOTH)
    assert list(later.rendered(BOTH, 101, named=False, render=render)) == [one.text for one in BOTH[:101]]
    assert render.entries == 101


def test_texts_with_names_are_rendered_apart():
    memo: ContextMemo[str] = ContextMemo()
    memo.rendered(FIRST, 10, named=False, render=Counting())
    named = memo.rendered(FIRST, 10, named=True, render=lambda entries: ["named"] * len(entries))
    assert list(named) == ["named"] * 10


def test_an_older_context_gets_its_own_entries_only():
    memo: ContextMemo[str] = ContextMemo()
    memo.tokens(FIRST)
    later = memo.extended(FRESH, BOTH)
    later.rendered(BOTH, 102, named=False, render=Counting())
    later.texts(BOTH, str.lower)
    later.turns(BOTH)
    assert list(memo.rendered(FIRST, 100, named=False, render=Counting())) == [one.text for one in FIRST]
    assert hash("text 102") not in memo.texts(FIRST, str.lower)
    assert ("s", 102) not in memo.turns(FIRST)


def test_sums_are_continued():
    memo: ContextMemo[str] = ContextMemo()
    assert memo.tokens(FIRST) == sum(range(1, 101))
    later = memo.extended(FRESH, BOTH)
    assert later.tokens(BOTH) == sum(range(1, 103))
    assert later.bytes(BOTH) == ContextMemo().bytes(BOTH) > memo.bytes(FIRST)


def test_texts_and_turns_are_those_of_the_entries():
    memo: ContextMemo[str] = ContextMemo()
    assert memo.texts(FRESH, str.lower) == {hash("text 101"), hash("text 102")}
    assert memo.turns(FRESH) == {("s", 101), ("s", 102)}


def test_a_memo_of_other_entries_starts_anew():
    memo: ContextMemo[str] = ContextMemo()
    memo.rendered(FIRST, 100, named=False, render=Counting())
    memo.texts(FIRST, str.lower)
    cut = FIRST[50:]
    assert memo.tokens(cut) == sum(range(51, 101))
    assert list(memo.rendered(cut, 50, named=False, render=Counting())) == [one.text for one in cut]
    assert memo.texts(cut, str.lower) == {hash(one.text.lower()) for one in cut}
