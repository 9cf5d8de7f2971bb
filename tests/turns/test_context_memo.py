"""A context costs what is new in it: what was computed about earlier entries is carried over, and is never wrong."""

from dataclasses import replace

import pytest

from holdfast.kernel.ids import AgentName, Instant, SessionId
from holdfast.turns import context
from holdfast.turns.context import Context, ContextMemo, ModelMessage, render_entries
from holdfast.turns.journal import Entry, UserSaid


def entry(seq: int, text: str = "Hello") -> Entry:
    body = UserSaid(text=text, principal="ada", message="m", event_id="e")
    return Entry(seq=seq, turn=seq, body=body, tokens=seq, at=Instant(0), session=SessionId("s"))


def texts(messages) -> list[str]:
    return [message.content for message in messages]


FIRST = tuple(entry(seq, f"Text {seq}") for seq in range(1, 101))
FRESH = (entry(101, "Text 101"), entry(102, "Text 102"))
BOTH = (*FIRST, *FRESH)


@pytest.fixture
def rendered(monkeypatch) -> list[Entry]:
    """The entries that were rendered."""
    seen: list[Entry] = []

    def counting(entries, **options):
        seen.extend(entries)
        return render_entries(entries, **options)

    monkeypatch.setattr(context, "render_entries", counting)
    return seen


def test_rendering_costs_the_entries_that_were_closed_since(rendered):
    memo = ContextMemo(FIRST)
    assert texts(memo.rendered(98, named=False)) == [one.text for one in FIRST[:98]]
    later = ContextMemo(BOTH, memo)
    assert texts(later.rendered(101, named=False)) == [one.text for one in BOTH[:101]]
    assert len(rendered) == 101


def test_texts_with_names_are_rendered_apart():
    memo = ContextMemo(FIRST)
    plain = memo.rendered(10, named=False)
    named = memo.rendered(10, named=True)
    assert list(named) == [ModelMessage(role="user", content=f"ada: {one.content}") for one in plain]


def test_an_older_context_gets_its_own_entries_only():
    memo = ContextMemo(FIRST)
    later = ContextMemo(BOTH, memo)
    later.rendered(102, named=False)
    later.texts(str.lower)
    later.turns()
    assert texts(memo.rendered(100, named=False)) == [one.text for one in FIRST]
    assert hash("text 102") not in memo.texts(str.lower)
    assert ("s", 102) not in memo.turns()


def test_sums_are_continued():
    memo = ContextMemo(FIRST)
    assert memo.tokens == sum(range(1, 101))
    later = ContextMemo(BOTH, memo)
    assert later.tokens == sum(range(1, 103))
    assert later.bytes == ContextMemo(BOTH).bytes > memo.bytes


def test_texts_and_turns_are_those_of_the_entries():
    memo = ContextMemo(FRESH)
    assert memo.texts(str.lower) == {hash("text 101"), hash("text 102")}
    assert memo.turns() == {("s", 101), ("s", 102)}


def test_a_context_of_other_entries_starts_anew():
    known = Context(
        session=SessionId("s"),
        agent=AgentName("fern"),
        summary=None,
        entries=FIRST,
        committed_seq=100,
        last_seq=100,
        undo_count=0,
        summaries=0,
        token_ratio=1.0,
        open_turn=None,
    )
    known.memo.rendered(100, named=False)
    known.memo.texts(str.lower)
    cut = FIRST[50:]
    memo = replace(known, entries=cut).memo
    assert memo.tokens == sum(range(51, 101))
    assert texts(memo.rendered(50, named=False)) == [one.text for one in cut]
    assert memo.texts(str.lower) == {hash(one.text.lower()) for one in cut}
    assert replace(known, open_turn=1).memo is known.memo, "the same entries go on with their memo"
