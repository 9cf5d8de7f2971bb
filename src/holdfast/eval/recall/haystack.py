"""The haystack: lines without evidence that surround the conversations in one index.

A line joins the beginning of one turn of the file with the end of another, so its words and their frequencies are
those of real turns, and no line repeats a turn as a whole. The same file and number give the same lines.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from holdfast.eval.recall.transcripts import Transcript, TranscriptSession, TranscriptTurn

SESSION_LINES = 20


def haystack(conversations: Sequence[Transcript], lines: int) -> Iterator[TranscriptSession]:
    """Sessions with this many lines in all, on the dates and by the speakers of the file's own sessions."""
    sessions = [session for one in conversations for session in one.sessions if session.turns]
    texts = [turn.words.split() for session in sessions for turn in session.turns]
    for start in range(0, lines, SESSION_LINES):
        model = sessions[_draw("session", start, len(sessions))]
        speakers = sorted({turn.speaker for turn in model.turns})
        turns = tuple(
            TranscriptTurn(id="", speaker=speakers[n % len(speakers)], text=_splice(n, texts))
            for n in range(start, min(start + SESSION_LINES, lines))
        )
        yield TranscriptSession(date=model.date, turns=turns)


def _splice(n: int, texts: Sequence[Sequence[str]]) -> str:
    begin = _draw("begin", n, len(texts))
    end = (begin + 1 + _draw("end", n, max(1, len(texts) - 1))) % len(texts)  # another turn, if there is one
    first, second = texts[begin], texts[end]
    return " ".join((*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]))


def _draw(what: str, n: int, among: int) -> int:
    """The nth number of a fixed sequence, below `among`."""
    return int.from_bytes(blake2b(f"{what} {n}".encode(), digest_size=8).digest(), "big") % among
