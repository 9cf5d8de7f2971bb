"""Records of Hermes' logs, read from files or from pasted reports.

Hermes writes `2026-05-28 16:12:31,482 INFO [session] logger: text`, in local time. Pasted reports drop milliseconds,
add blanks, wrap lines anywhere, quote them and repeat blocks. A record begins with a date, a time and a level at the
start of a line, and lasts to the next one. Times are seconds since 1970 as if the local time were UTC.
"""

import re
from calendar import timegm
from collections.abc import Iterable
from dataclasses import dataclass

BEGINS = re.compile(
    r"^[>|*`\s]*(?P<date>\d{4}-\d\d-\d\d)[T\s]\s*(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,6}))?\s+"
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\b",
    re.MULTILINE,
)
REST = re.compile(
    r"\s*(?:\[(?P<bracket>[^\]]{1,200})\])?\s*(?P<logger>[A-Za-z_][\w.]*)\s*:\s?(?P<text>.*)\Z", re.DOTALL
)
WRAP = re.compile(r"[ \t]*\r?\n[>|* \t`]*")
BLANKS = re.compile(r"\s+")
PARAGRAPH = re.compile(r"\n[>|*` \t\r]*\n")
RECORD_CHARS_MAX = 4_000
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


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
    starts = list(BEGINS.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    records = []
    line, counted = 1, 0
    for start, end in zip(starts, ends, strict=False):
        line, counted = line + text.count("\n", counted, start.start("date")), start.start("date")
        if (record := _record(start, text[start.end() : end], f"{name}:{line}")) is not None:
            records.append(record)
    return records


def _record(start: "re.Match[str]", body: str, place: str) -> LogRecord | None:
    body = PARAGRAPH.split(body[:RECORD_CHARS_MAX], maxsplit=1)[0].strip("\r\n>|*` \t")
    spaced, unwrapped = REST.match(WRAP.sub(" ", body)), REST.match(WRAP.sub("", body))
    found, unwrapped = spaced or unwrapped, unwrapped or spaced
    at = seconds(start["date"], start["time"])
    if found is None or unwrapped is None or at is None:
        return None
    fraction = float(f"0.{start['fraction']}") if start["fraction"] else 0.0
    bracket = "".join((found["bracket"] or "").split())
    shown = f"{start['date']} {start['time']}"
    text, joined = (BLANKS.sub(" ", one["text"]).strip() for one in (found, unwrapped))
    return LogRecord(at + fraction, shown, start["level"], bracket, unwrapped["logger"], text, joined, place)


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
