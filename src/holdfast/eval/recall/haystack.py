"""The haystack: lines without evidence that surround the conversations in one index.

A line joins the beginning of one turn of the file with the end of another, so its words and their frequencies are
those of real turns, and no line repeats a turn as a whole. The same file and number give the same lines.
"""

import random
from collections.abc import Iterator, Sequence

from holdfast.eval.recall.transcripts import Transcript, TranscriptSession, TranscriptTurn

SESSION_LINES = 20


def haystack(conversations: Sequence[Transcript], lines: int) -> Iterator[TranscriptSession]:
    """Sessions with this many lines in all, on the dates and by the speakers of the file's own sessions."""
    dice = random.Random("haystack")  # noqa: S311 - a fixed sequence
    sessions = [session for one in conversations for session in one.sessions if session.turns]
    texts = [turn.words.split() for session in sessions for turn in session.turns]
    for start in range(0, lines, SESSION_LINES):
        model = dice.choice(sessions)
        speakers = sorted({turn.speaker for turn in model.turns})
        turns = tuple(
            TranscriptTurn(id="", speaker=speakers[n % len(speakers)], text=_splice(dice, texts))
            for n in range(min(SESSION_LINES, lines - start))
        )
        yield TranscriptSession(date=model.date, turns=turns)


def _splice(dice: random.Random, texts: Sequence[Sequence[str]]) -> str:
    first, second = dice.sample(texts, 2) if len(texts) > 1 else (texts[0], ())
    return " ".join((*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]))
