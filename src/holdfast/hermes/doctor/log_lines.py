"""Records of Hermes' logs, read from files or from pasted reports.

Hermes writes `2026-05-28 16:12:31,482 INFO [session] logger: text`, in local time. Pasted reports drop milliseconds,
add zones, blanks and colours, wrap lines anywhere, quote or number them and repeat blocks. A record begins with a date,
a time and a level near the start of a line, and lasts to the next one. Words of a message are never changed, because
they are compared with the database. Times are seconds since 1970 as if the local time were UTC.
"""

import re
from calendar import timegm
from collections.abc import Iterable
from dataclasses import dataclass

DECORATION = r"(?:[*_`]|\[\d{1,3}(?:;\d{1,3})*m)*"  # of Markdown, or of a colour that lost its escape character
BEGINS = re.compile(
    # In front: a quotation mark, the number of a list, the file and line of a search, the name and time of a service.
    r"^.{0,80}?(?<!\d)(?P<date>\d{4}-\d\d-\d\d)[T\s]\s*(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
    r"\s*(?:Z|[A-Z]{3,5}|[+-]\d\d:?\d\d)?\s+"
    rf"{DECORATION}(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)(?![A-Za-z]){DECORATION}",
    re.MULTILINE,
)
REST = re.compile(
    r"\s*(?:\\?\[(?P<bracket>[^\]\\]{1,200})\\?\])?\s*(?P<logger>[A-Za-z_](?:[\w.]|\\_)*)\s*:\s?(?P<text>.*)\Z",
    re.DOTALL,
)
RUN_TOGETHER = re.compile(r"(?:\s|\\n)(?=\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)")
COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
IN_IDS = re.compile(r"(?<=\d)\\(?=_[0-9a-f])|(?<=[0-9a-f_])[\u200b\u2060\ufeff\u00ad]+(?=[0-9a-f_])")
WRAP = re.compile(r"[ \t]*\r?\n[>|* \t`]*")
BLANKS = re.compile(r"\s+")
PARAGRAPH = re.compile(r"\n[>|*` \t\r]*\n")
RECORD_CHARS_MAX = 4_000
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
UTF_16_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record. `text` has its line breaks as blanks, `joined` without them: a wrap may have cut a word."""

    at: float
    shown_at: str  # as the log shows it, without a fraction
    level: str
    bracket: str
    logger: str
    text: str
    joined: str
    place: str  # file and line

    def __str__(self) -> str:
        bracket = f" [{self.bracket}]" if self.bracket else ""
        return f"{self.place} {self.shown_at} {self.level}{bracket} {self.logger}: {self.text}"


def decode(data: bytes) -> str:
    """The text of a log. Each line may have an encoding of its own: UTF-8, or else the one of Windows in Europe."""
    if data.startswith(UTF_16):
        return data.decode("utf-16", "replace")
    if 0 not in data[0:UTF_16_SAMPLE:2] and not any(data[1:UTF_16_SAMPLE:2]) and len(data) > 1:
        return data.decode("utf-16-le", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "\n".join(_decode_line(line) for line in data.split(b"\n"))


def _decode_line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("cp1252", "replace")


def parse_log(text: str, name: str) -> list[LogRecord]:
    """The records of one file, in its order."""
    text = _clean(text)
    starts = list(BEGINS.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    records = []
    line, counted = 1, 0
    for start, end in zip(starts, ends, strict=False):
        line, counted = line + text.count("\n", counted, start.start("date")), start.start("date")
        if (record := _record(start, text[start.end() : end], f"{name}:{line}")) is not None:
            records.append(record)
    return records


def _clean(text: str) -> str:
    """The text without colours, with one kind of line break, and with the ids of sessions as Hermes wrote them."""
    text = IN_IDS.sub("", COLOURS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    return text if "\n" in text.strip() else RUN_TOGETHER.sub("\n", text)


def _record(start: "re.Match[str]", body: str, place: str) -> LogRecord | None:
    body = PARAGRAPH.split(body[:RECORD_CHARS_MAX], maxsplit=1)[0].strip("\r\n>|*` \t")
    spaced, unwrapped = REST.match(WRAP.sub(" ", body)), REST.match(WRAP.sub("", body))
    found, unwrapped = spaced or unwrapped, unwrapped or spaced
    at = seconds(start["date"], start["time"])
    if found is None or unwrapped is None or at is None:
        return None
    fraction = float(f"0.{start['fraction']}") if start["fraction"] else 0.0
    bracket = "".join((found["bracket"] or "").split())
    logger = unwrapped["logger"].replace("\\", "")
    shown = f"{start['date']} {start['time']}"
    text, joined = (BLANKS.sub(" ", one["text"]).strip() for one in (found, unwrapped))
    return LogRecord(at + fraction, shown, start["level"], bracket, logger, text, joined, place)


def seconds(date: str, time: str) -> float | None:
    """Seconds since 1970 of a local time, as if it were UTC; None for a date that does not exist."""
    parts = [int(part) for part in (*date.split("-"), *time.split(":"))]
    try:
        return float(timegm((parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], 0, 0, 0)))
    except ValueError:
        return None


def merge(logs: Iterable[Iterable[LogRecord]]) -> list[LogRecord]:
    """The records of all files in order of time, each once: files and pasted blocks repeat each other."""
    seen: dict[tuple[str, str], set[float]] = {}
    kept = []
    for record in (record for log in logs for record in log):
        times = seen.setdefault((record.shown_at, BLANKS.sub("", record.joined)), set())
        whole = float(int(record.at))
        if record.at in times or (times and (record.at == whole or whole in times)):
            continue
        times.add(record.at)
        kept.append(record)
    return sorted(kept, key=lambda one: one.at)
