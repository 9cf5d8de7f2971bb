"""Write the golden journal of this release: one entry or more of every kind, as the bytes that the store keeps.

    python -m tools.golden

Run once per release, when its version is new; an existing file is never written again, because its worth is that no
later release made it. tests/golden/test_journals.py reads all of them for ever.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from holdfast.turns.journal import (
    AnyBody,
    AssistantSaid,
    Forgotten,
    Noticed,
    Observed,
    Recalled,
    ToolCall,
    ToolReturned,
    ToolStarted,
    Undone,
    UserSaid,
    encode_body,
)

FOLDER = Path(__file__).parents[1] / "tests" / "golden"
ODD = 'NUL \0, emoji 👩\u200d👩\u200d👧, accents é e\u0301, quotes "\\", lines\r\n\u2028, the last one \U0010ffff'
BODIES: tuple[AnyBody, ...] = (
    UserSaid(text="my cat is called Byron", principal="ada"),
    UserSaid(text=ODD, principal="zoë", message="msg_01", event_id="telegram/42"),
    AssistantSaid(text="Noted."),
    AssistantSaid(text=ODD, model="practice"),
    AssistantSaid(
        text="",
        calls=(ToolCall(id="call_1", name="clock"), ToolCall(id="call_2", name="send", arguments='{"to": "bob"}')),
        model="practice",
    ),
    ToolStarted(call="call_1", name="clock"),
    ToolReturned(call="call_1", name="clock", text="noon"),
    ToolReturned(call="call_2", name="send", text="It may have been sent.", outcome="unknown"),
    ToolReturned(call="call_3", name="send", text="", outcome="error"),
    Observed(text="did you see that?", principal="bob"),
    Observed(text="hm", principal="bob", message="msg_02", event_id="7"),
    Recalled(text="Ada has a cat."),
    Noticed(text="[This turn was interrupted: stopped.]"),
    Undone(first_turn=2, last_turn=3, from_seq=5),
    Undone(first_turn=1, last_turn=1, from_seq=1, by="msg_03"),
    Forgotten(),
)


def file_of(version: str) -> Path:
    return FOLDER / f"journal-{version}.json"


def fields(body: AnyBody) -> dict[str, Any]:
    """What a body says, defaults included, as JSON has it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(body)))
    return found


def journal() -> list[dict[str, object]]:
    return [
        {
            "seq": seq,
            "kind": body.kind,
            "stored": encode_body(body).decode(),
            "reads": fields(body),
        }
        for seq, body in enumerate(BODIES, start=1)
    ]


def main() -> int:
    file = file_of(holdfast.__version__)
    if file.exists():
        print(f"{file.name} exists already; a golden journal is written once", file=sys.stderr)
        return 1
    text = json.dumps({"release": holdfast.__version__, "entries": journal()}, indent=1)
    file.write_text(f"{text}\n", encoding="utf-8")
    print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
