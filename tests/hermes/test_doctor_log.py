"""The doctor reads the log lines of the original incident in every form in which people paste them.

They show exactly one anomaly A (rotation, 16:15:40 to 16:16:35) and one anomaly B (a stale bracket, 16:14:01).
"""

import html
import textwrap

import pytest

from holdfast.hermes.doctor.examination import examine_logs
from holdfast.hermes.doctor.log_lines import decode, merge, parse_log
from holdfast.hermes.doctor.log_runs import read_story

X, Y, Z = "20260528_155201_68dc5996", "20260528_093510_66bfaec7", "20260528_161635_bb86b1"
LOGGERS = ("agent.conversation_compression", "run_agent")


def line(time, bracket, text, *, logger=LOGGERS[0], fraction=""):
    return f"2026-05-28 {time}{fraction} INFO [{bracket}] {logger}: context compression {text}"


def incident(logger=LOGGERS[0], fraction="", blanks=" "):
    make = {"logger": logger, "fraction": fraction}
    started, done = "started: session=", f"done:{blanks}session="
    return [
        line("16:12:31", X, f"{started}{X} messages=156 tokens=~145,003 model=claude-opus-4.7", **make),
        line("16:13:18", X, f"{done}{X} messages=156->8 tokens=~29,548", **make),
        line("16:14:01", Y, f"{started}{X} messages=39 tokens=~143,661 model=claude-opus-4.7", **make),
        line("16:14:29", Y, f"{done}{X} messages=39->13 tokens=~9,501", **make),
        line("16:15:40", Y, f"{started}{Y} messages=194 tokens=~145,948 model=claude-opus-4.7", **make),
        line("16:16:35", Y, f"{done}{Z} messages=194->26 tokens=~41,442", **make),
    ]


def wrapped(lines, width):
    return [part for one in lines for part in textwrap.wrap(one, width, break_on_hyphens=False)]


def cut(lines, width):
    """As a terminal wraps: anywhere, also inside a word."""
    return [one[at : at + width] for one in lines for at in range(0, len(one), width)]


PLAIN = incident()
FORMS = {
    "as pasted": incident(blanks="    "),
    "with milliseconds": incident(fraction=",123"),
    "of the older logger": incident(LOGGERS[1]),
    "pasted twice": [*PLAIN, "", *PLAIN],
    "from both loggers": [*PLAIN, *incident(LOGGERS[1])],
    "with and without milliseconds": [*incident(fraction=",482"), *PLAIN],
    "in quotes": [f"> {one}" for one in PLAIN],
    "with empty lines between": [part for one in PLAIN for part in (one, "")],
    "between other lines": [part for one in PLAIN for part in ("2026-05-28 16:10:00 INFO x: y", one, "  File z")],
    **{f"wrapped at {width}": wrapped(PLAIN, width) for width in (60, 80, 100, 120)},
    **{f"cut at {width}": cut(PLAIN, width) for width in (57, 79, 80, 97, 99, 100, 101, 120, 132)},
    "wrapped and pasted twice": [*wrapped(PLAIN, 80), "", *cut(PLAIN, 96)],
    **{f"a number or an arrow cut in two at {width}": cut(PLAIN, width) for width in (52, 77, 154, 156, 157)},
    "wrapped in quotes": [f"> {one}" for one in wrapped(PLAIN, 72)],
    "wrapped with an indent": [
        part for one in PLAIN for part in textwrap.wrap(one, 80, break_on_hyphens=False, subsequent_indent="    ")
    ],
    "in nested quotes": [f"> > {one}" for one in PLAIN],
    "in a code block": ["Our log:", "```log", *PLAIN, "```", "That was in 2026."],
    "in a quoted code block": ["> ```", *(f"> {one}" for one in PLAIN), "> ```"],
    "as inline code in a list": [f"- `{one}`" for one in PLAIN],
    "numbered": [f"{n}. {one}" for n, one in enumerate(PLAIN, 1)],
    "with line numbers": [f"{n:6}\t{one}" for n, one in enumerate(PLAIN, 1)],
    "found by grep": [f"logs/agent.log:{n}:{one}" for n, one in enumerate(PLAIN, 1)],
    "found by grep on Windows": [f"C:\\Users\\ada\\agent.log:{n}:{one}" for n, one in enumerate(PLAIN, 1)],
    "from a container": [f"gateway_1  | {one}" for one in PLAIN],
    "from a cluster": [f"2026-05-28T14:15:40.123456789Z {one}" for one in PLAIN],
    "from the journal": [f"May 28 16:15:40 host hermes[812]: {one}" for one in PLAIN],
    "in JSON": ["[", *(f'  "{one}",' for one in PLAIN), "]"],
    "in a table": [f"| {one} |" for one in PLAIN],
    "as a difference": [f"+{one}" for one in PLAIN],
    "with escaped underscores": [one.replace("_", "\\_").replace("->", "-\\>") for one in PLAIN],
    "with a bold level": [one.replace("INFO", "**INFO**") for one in PLAIN],
    "as HTML": [f"{html.escape(one)}<br>" for one in PLAIN],
    "with arrows": [one.replace("->", "\u2192") for one in PLAIN],
    "with tabs": [one.replace(" ", "\t") for one in PLAIN],
    "with no-break spaces": [one.replace(" ", "\u00a0") for one in PLAIN],
    "with zero-width spaces": [one.replace("_", "_\u200b") for one in PLAIN],
    "in colours": [f"\x1b[32m{one}\x1b[0m" for one in PLAIN],
    "with a coloured level": [one.replace("INFO", "\x1b[1;32mINFO\x1b[0m") for one in PLAIN],
    "with ids that grep coloured": [one.replace(X, f"\x1b[01;31m\x1b[K{X}\x1b[m\x1b[K") for one in PLAIN],
    "with colours that lost their escape": [one.replace("INFO", "[32mINFO[0m") for one in PLAIN],
    "with microseconds": incident(fraction=".123456"),
    **{f"in the zone {zone.strip()}": incident(fraction=zone) for zone in ("Z", "+02:00", " +0200", " UTC", " CEST")},
    **{f"with milliseconds and {zone.strip()}": incident(fraction=f",482{zone}") for zone in ("Z", "-07:00", " PDT")},
    "in the ISO format": [one.replace("2026-05-28 ", "2026-05-28T") for one in incident(fraction="Z")],
    "newest first": PLAIN[::-1],
    "newest first and wrapped": wrapped(PLAIN[::-1], 80),
    "twice in both orders": [*PLAIN, *PLAIN[::-1]],
    "twice, once in quotes": [*PLAIN, "", *(f"> {one}" for one in PLAIN)],
    "three times": [*PLAIN, "```", *incident(LOGGERS[1], fraction=",871"), "```", *incident(blanks="    ")],
    "in one line": [" ".join(PLAIN)],
    "in one line with escaped breaks": ["\\n".join(PLAIN)],
}
ENCODINGS = {
    "a byte-order mark": ("utf-8-sig", "\n"),
    "CRLF": ("utf-8", "\r\n"),
    "CR": ("utf-8", "\r"),
    "UTF-16": ("utf-16", "\r\n"),
    "UTF-16 of the other order": ("utf-16-be", "\n"),
    "UTF-16 without a mark": ("utf-16-le", "\r\n"),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_incident_has_one_rotation_and_one_stale_bracket(name, tmp_path):
    (tmp_path / "pasted.txt").write_text("\n".join(FORMS[name]), encoding="utf-8")
    assert_incident(tmp_path / "pasted.txt")


def assert_incident(path):
    found = examine_logs([path]).findings
    rotations = [one for one in found if one.anomaly == "A"]
    brackets = [one for one in found if one.anomaly == "B"]
    assert [(one.begins, one.ends) for one in rotations] == [("2026-05-28 16:15:40", "2026-05-28 16:16:35")]
    assert [one.begins for one in brackets] == ["2026-05-28 16:14:01"]
    assert rotations[0].sessions == (Y, Z)
    assert brackets[0].sessions == (X, Y)


def test_a_log_may_mix_encodings(tmp_path):
    odd = "2026-05-28 16:13:00 INFO gateway: caf\xe9 \u201cquoted\u201d".encode("cp1252")
    (tmp_path / "mixed.log").write_bytes(
        b"\xef\xbb\xbf" + "\n".join(PLAIN[:3]).encode() + b"\n" + odd + b"\n\x81\xff\x00\n"
    )
    with (tmp_path / "mixed.log").open("ab") as opened:
        opened.write("\n".join(PLAIN[3:]).encode())
    found = examine_logs([tmp_path / "mixed.log"]).findings
    assert sorted(one.anomaly for one in found if one.anomaly) == ["A", "B"]


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_incident_is_read_in_every_encoding(name, tmp_path):
    encoding, newline = ENCODINGS[name]
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "pasted.txt").write_bytes((mark + newline.join(PLAIN)).encode(encoding))
    assert_incident(tmp_path / "pasted.txt")


def test_a_message_that_quotes_a_log_is_no_record(tmp_path):
    (tmp_path / "agent.log").write_text(
        f"2026-06-01 09:00:00,100 INFO [{X}] run_agent: conversation turn: session={X} model=m provider=p "
        f"platform=telegram history=2 msg='What is this? {PLAIN[2]}'\n"
        f"2026-06-01 09:00:01,100 INFO [{X}] run_agent: Turn ended: reason=text_response(stop) session={X}\n"
    )
    assert examine_logs([tmp_path / "agent.log"]).findings == ()


def test_a_record_of_two_files_counts_once():
    records = merge([parse_log("\n".join(PLAIN), "agent.log"), parse_log("\n".join(PLAIN), "gateway.log")])
    assert [record.place for record in records] == [f"agent.log:{n}" for n in range(1, 7)]


def test_interleaved_compressions_are_paired_by_their_messages():
    lines = [
        line("10:00:00", "a", "started: session=a messages=40 tokens=~1 model=m"),
        line("10:00:01", "b", "started: session=b messages=50 tokens=~1 model=m"),
        line("10:00:20", "b", "done: session=b2 messages=50->9 rough_tokens=~1 awaiting_real_usage=true"),
        line("10:00:30", "a", "done: session=a messages=40->8 rough_tokens=~1 awaiting_real_usage=true"),
    ]
    runs = read_story(parse_log("\n".join(lines), "agent.log")).runs
    assert [(run.session, run.result) for run in runs] == [("a", "a"), ("b", "b2")]


def test_a_compression_without_an_end_is_told_as_information(tmp_path):
    (tmp_path / "a.log").write_text(PLAIN[0])
    found = examine_logs([tmp_path / "a.log"]).findings
    assert [(one.kind.code, one.severity.value) for one in found] == [("compression_unfinished", "info")]


def test_text_without_records_has_no_findings(tmp_path):
    (tmp_path / "a.log").write_bytes(b"\x00\x01 nothing\n\n[]: session=\n2026-99-99 INFO")
    assert examine_logs([tmp_path / "a.log"]).findings == ()
    assert decode(b"") == ""
