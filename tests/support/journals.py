"""Journals for the unit tests: entries in a line, whole turns, and strategies that draw them."""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from holdfast.kernel.ids import AgentName, Instant, OperationId, SessionId
from holdfast.sessions.compression import Summary
from holdfast.turns.context import Context
from holdfast.turns.journal import (
    AnyBody,
    AssistantSaid,
    Entry,
    Forgotten,
    Noticed,
    Observed,
    Recalled,
    ToolCall,
    ToolReturned,
    ToolStarted,
    Undone,
    UserSaid,
    body_tokens,
)

SESSION = SessionId("ses_1")


def line(*said: tuple[int, AnyBody]) -> tuple[Entry, ...]:
    """Entries numbered from 1, each given as (turn, body)."""
    return tuple(
        Entry(seq=seq, turn=turn, body=body, tokens=body_tokens(body), at=Instant(seq))
        for seq, (turn, body) in enumerate(said, start=1)
    )


def exchange(turn: int, asked: str = "hello", answered: str = "hi") -> list[tuple[int, AnyBody]]:
    return [(turn, UserSaid(text=asked, principal="ada")), (turn, AssistantSaid(text=answered))]


def tool_turn(turn: int) -> list[tuple[int, AnyBody]]:
    """A turn of five entries in which a tool is called."""
    return [
        (turn, UserSaid(text="what time is it?", principal="ada")),
        (turn, AssistantSaid(text="", calls=(ToolCall(id="c1", name="clock"),))),
        (turn, ToolStarted(call="c1", name="clock")),
        (turn, ToolReturned(call="c1", name="clock", text="noon")),
        (turn, AssistantSaid(text="it is noon")),
    ]


def context(
    entries: Sequence[Entry],
    *,
    summary: Summary | None = None,
    ratio: float = 1.0,
    open_turn: int | None = None,
) -> Context:
    last_seq = max((entry.seq for entry in entries), default=0)
    open_from = min((entry.seq for entry in entries if entry.turn == open_turn), default=last_seq + 1)
    return Context(
        session=SESSION,
        agent=AgentName("main"),
        summary=summary,
        entries=tuple(entries),
        committed_seq=open_from - 1,
        last_seq=last_seq,
        undo_count=0,
        summaries=summary.n if summary else 0,
        token_ratio=ratio,
        open_turn=open_turn,
    )


def summary(text: str = "they spoke of cats", *, n: int = 1, through: int = 4) -> Summary:
    return Summary(
        session=SESSION,
        n=n,
        base_n=n - 1,
        covers_from=1,
        covers_through=through,
        head_seq=through,
        text=text,
        model="practice",
        tokens=20,
        operation=OperationId("op_1"),
        at=Instant(1),
    )


# --- strategies --------------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
calls = st.builds(ToolCall, id=words, name=words, arguments=words)
bodies: st.SearchStrategy[AnyBody] = st.one_of(
    st.builds(UserSaid, text=words, principal=words, message=words, event_id=words),
    st.builds(AssistantSaid, text=words, calls=st.lists(calls, max_size=3).map(tuple), model=words),
    st.builds(ToolStarted, call=words, name=words),
    st.builds(ToolReturned, call=words, name=words, text=words, outcome=st.sampled_from(["ok", "error", "unknown"])),
    st.builds(Observed, text=words, principal=words, message=words, event_id=words),
    st.builds(Recalled, text=words),
    st.builds(Noticed, text=words),
    st.builds(
        Undone,
        first_turn=st.integers(1, 99),
        last_turn=st.integers(1, 99),
        from_seq=st.integers(1, 999),
        by=words,
    ),
    st.just(Forgotten()),
)
remarks = st.text(st.sampled_from("ab \n\0é😀"), max_size=12) | st.just("x" * 200)  # quick to draw, short or long
spoken: st.SearchStrategy[AnyBody] = st.one_of(
    st.builds(UserSaid, text=remarks, principal=st.sampled_from(["ada", "bob"])),
    st.builds(AssistantSaid, text=remarks),
    st.builds(ToolReturned, call=st.just("c"), name=st.just("t"), text=remarks),
    st.builds(Recalled, text=remarks),
    st.builds(Noticed, text=remarks),
)


@st.composite
def journals(draw: st.DrawFn, *, turns_max: int = 8, undos: bool = False) -> tuple[Entry, ...]:
    """Turns of one to five entries, talk without a turn between them and, when asked for, undos."""
    said: list[tuple[int, AnyBody]] = []
    turn = 0
    for _ in range(draw(st.integers(0, turns_max))):
        step = draw(st.sampled_from(["turn", "turn", "turn", "talk", *(["undo"] if undos and turn else [])]))
        if step == "turn":
            turn += 1
            said += [(turn, body) for body in draw(st.lists(spoken, min_size=1, max_size=4))]
        elif step == "talk":
            said += [
                (0, Observed(text=text, principal="bob")) for text in draw(st.lists(remarks, min_size=1, max_size=3))
            ]
        else:
            first = draw(st.integers(1, turn))
            said.append((0, Undone(first_turn=first, last_turn=draw(st.integers(first, turn + 2)), from_seq=1)))
    return line(*said)


def turns_of(entries: Iterable[Entry]) -> list[int]:
    """The turns among the entries, oldest first, without what belongs to none."""
    return sorted({entry.turn for entry in entries if entry.turn})
