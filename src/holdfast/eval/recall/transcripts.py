"""The conversations for measuring recall: a JSON file, read strictly.

A list of conversations, each an object with
- `id`: a text;
- `sessions`: each with `date` ("1:56 pm on 8 May, 2023") and `turns`: `id`, `speaker`, `text`, and maybe `image`, the
  caption of a picture that was shared;
- `questions`: `question`, `category` (a number), and `evidence`: the ids of the turns that answer it. Several ids may
  stand in one text, with semicolons, commas or blanks between them. A question without evidence is not asked.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import Instant

FILE_BYTES_MAX = 256 << 20
WITHOUT_EVIDENCE = 5  # the category of questions without an answer in the conversation
_DATE_FORMATS = ("%I:%M %p on %d %B, %Y", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d")


class TranscriptTurn(Struct, frozen=True, kw_only=True):
    id: str
    speaker: str
    text: str
    image: str = ""

    @property
    def words(self) -> str:
        return f"{self.text} [shares {self.image}]" if self.image else self.text


class TranscriptSession(Struct, frozen=True, kw_only=True):
    date: str
    turns: tuple[TranscriptTurn, ...]

    @property
    def at(self) -> Instant:
        """Raises `InvalidInput`."""
        for form in _DATE_FORMATS:
            try:
                found = datetime.strptime(self.date.strip(), form).replace(tzinfo=UTC)
            except ValueError:
                continue
            return Instant(int(found.timestamp() * 1000))
        raise InvalidInput(f"{self.date[:60]!r} is not a date; write it like '1:56 pm on 8 May, 2023' or 2023-05-08")


class TranscriptQuestion(Struct, frozen=True, kw_only=True):
    question: str
    category: int
    evidence: tuple[str, ...]

    @property
    def turns(self) -> frozenset[str]:
        """The ids of the turns with the answer."""
        return frozenset(part for text in self.evidence for part in re.split(r"[;,\s]+", text) if part)

    @property
    def counts(self) -> bool:
        return self.category != WITHOUT_EVIDENCE and bool(self.turns)


class Transcript(Struct, frozen=True, kw_only=True):
    id: str
    sessions: tuple[TranscriptSession, ...]
    questions: tuple[TranscriptQuestion, ...]


def read_conversations(path: Path) -> list[Transcript]:
    """Raises `InvalidInput`, which names the fault and its place."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InvalidInput(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    try:
        found = msgspec.json.decode(raw, type=list[Transcript])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not a set of conversations: {error}") from error
    if not any(asked.counts for one in found for asked in one.questions):
        raise InvalidInput(f"{path} has no question with evidence")
    for one in found:
        for session in one.sessions:
            _ = session.at
    return found
