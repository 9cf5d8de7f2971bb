"""A real conversation can be measured too: its details are found again only where they were kept.

The report of a real conversation has none of its text.
"""

import json

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.eval.compression.chat_transcript import find_details, plan_transcript, read_transcript
from holdfast.eval.compression.conversation import DialogueTurn
from holdfast.kernel.errors import InvalidInput

FILLER = "We talked about the weather and the way home, and nothing else came of it. " * 3


def messages(turns: int = 24) -> list[dict[str, object]]:
    said: list[dict[str, object]] = [{"role": "system", "content": "You help."}]
    for n in range(turns):
        said.append({"role": "user", "content": f"{FILLER} The room number is {4000 + n * 7}."})
        said.append({"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}"}]})
        said.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"It is in rooms/plan_{n}.txt now."})
        said.append({"role": "assistant", "content": f"{FILLER} Noted."})
    return said


@pytest.fixture
def transcript(tmp_path):
    def write(content):
        path = tmp_path / "transcript.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_turns_begin_with_the_user_and_hold_the_results_of_tools(transcript):
    turns = read_transcript(transcript({"messages": messages(2)}))
    assert len(turns) == 2
    assert "4000" in turns[0].user
    assert "rooms/plan_0.txt" in turns[0].assistant


def test_content_may_be_a_list_of_parts(transcript):
    said = {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {}}]}
    assert read_transcript(transcript({"messages": [said]})) == [DialogueTurn(user="hello", assistant="")]


def test_calls_without_text_and_records_of_hermes_are_read(transcript):
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "look"}}]}
    said = [{"role": "session_meta"}, {"role": "user", "content": "a"}, call, {"role": "tool", "content": "b"}]
    assert read_transcript(transcript({"messages": said})) == [DialogueTurn(user="a", assistant="b")]


def test_a_detail_is_said_once_and_its_question_does_not_say_it():
    turns = [
        DialogueTurn(user="Meet on 6 November 2037 with Tarquin at 10450 euros.", assistant="Yes, 10450 it is."),
        DialogueTurn(user="The file is notes/app_main.js, I think.", assistant="So it is."),
    ]
    found = {one.fact.value: one for one in find_details(turns)}
    assert set(found) == {"6 November 2037", "Tarquin", "notes/app_main.js"}
    assert all(value not in one.fact.question for value, one in found.items())
    assert found["notes/app_main.js"].turn == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not JSON"),
        ("[]", 'not an object with a list "messages"'),
        ({"messages": [{"content": "a"}]}, r"messages\[0\] has no role"),
        ({"messages": ["hello"]}, r"messages\[0\] has no role"),
        ({"messages": [{"role": "wizard", "content": "a"}]}, r"messages\[0\] has the role 'wizard'; it must be one of"),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, r"messages\[0\] has a content that is neither"),
        ({"messages": []}, "has 0 turns"),
        ({"messages": messages(3)}, "has 3 turns; 6 compressions need"),
    ],
)
def test_a_file_that_cannot_be_measured_is_refused_with_its_fault(transcript, content, why):
    with pytest.raises(InvalidInput, match=why):
        plan_transcript(read_transcript(transcript(content)), facts=10, compressions=6)


def test_a_conversation_without_details_is_refused():
    with pytest.raises(InvalidInput, match="exactly once"):
        plan_transcript([DialogueTurn(user="hello", assistant="hi")] * 4, facts=10, compressions=1)


def test_the_command_reports_recall_against_tokens_and_no_text(transcript):
    file = transcript({"messages": messages()})
    arguments = ["eval", "compression", "--transcript", str(file), "--compressions", "2", "--facts", "20", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["turns"], report["facts"], len(report["rounds"])) == (24, 20, 2)
    for one in report["rounds"]:
        assert one["tokens_after"] < one["tokens_before"]
        assert one["score"] <= one["score_with_recall"]
    assert report["gone"] == []
    assert "weather" not in done.stdout
