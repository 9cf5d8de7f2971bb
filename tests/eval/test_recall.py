"""The promise: `holdfast eval recall FILE` scores the local provider through its real path, and says what is wrong with
a file that it cannot use."""

import json

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.eval.recall.haystack import haystack
from holdfast.eval.recall.transcripts import read_conversations


def said(id, speaker, text, **more):
    return {"id": id, "speaker": speaker, "text": text, **more}


def asked(question, category, *evidence):
    return {"question": question, "category": category, "evidence": list(evidence)}


SAMPLE = [
    {
        "id": "one",
        "sessions": [
            {
                "date": "9:15 am on 3 March, 2024",
                "turns": [
                    said("a1", "Ines", "I finally bought the old lighthouse on the point."),
                    said("a2", "Tomo", "Really? What will you do with it?"),
                    said("a3", "Ines", "A tiny museum of knots.", image="a photo of coiled ropes"),
                ],
            },
            {
                "date": "2024-05-20",
                "turns": [
                    said("b1", "Tomo", "Yesterday my bees swarmed onto the neighbour's roof."),
                    said("b2", "Ines", "Oh no. Did you get them back?"),
                    said("b3", "Tomo", "With a ladder and a basket, yes."),
                ],
            },
        ],
        "questions": [
            asked("What did Ines buy?", 4, "a1"),
            asked("When did Tomo's bees swarm?", 2, "b1"),
            asked("How did the bees come back and what is in the museum?", 1, "b3; a3"),
            asked("Which opera does Tomo sing?", 5, "b1"),
            asked("Is anything unanswered?", 3),
        ],
    },
    {"id": "two", "sessions": [{"date": "2024-01-01 10:00", "turns": [said("c1", "Bo", "plum")]}], "questions": []},
]


def run(*arguments):
    return CliRunner().invoke(app, ["eval", "recall", *map(str, arguments)], prog_name="holdfast")


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.json"
    path.write_text(json.dumps(SAMPLE), encoding="utf-8")
    return path


def test_the_score_is_the_share_of_the_evidence_that_comes_back(sample):
    done = run(sample, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["conversations"], report["turns"], report["questions"]) == (2, 7, 3)
    assert (report["at_5"], report["at_10"]) == (1.0, 1.0)
    assert {name: one["questions"] for name, one in report["categories"].items()} == {"1": 1, "2": 1, "4": 1}


def test_people_get_a_table(sample):
    done = run(sample, "--limit", "1")
    assert done.exit_code == 0
    assert "100.0% of the evidence is among the first 5 turns" in done.stdout
    assert "3 questions about 6 turns of 1 conversations" in done.stdout


def test_a_haystack_surrounds_all_conversations_in_one_index(sample):
    done = run(sample, "--haystack", 20, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["haystack"], report["turns"], report["questions"]) == (20, 7, 3)
    assert 0 < report["at_10"] <= 1
    assert report == json.loads(run(sample, "--haystack", 20, "--json").stdout), "the same lines every time"
    assert "among 20 other lines" in run(sample, "--haystack", 20).stdout


def test_the_lines_of_a_haystack_are_halves_of_two_turns(sample):
    conversations = read_conversations(sample)
    sessions = list(haystack(conversations, 50))
    lines = [turn for session in sessions for turn in session.turns]
    told = [turn for one in conversations for session in one.sessions for turn in session.turns]
    words = {word for turn in told for word in turn.words.split()}
    assert [len(session.turns) for session in sessions] == [20, 20, 10]
    assert {word for turn in lines for word in turn.text.split()} <= words
    assert {turn.speaker for turn in lines} <= {turn.speaker for turn in told}
    assert not any(turn.id for turn in lines)
    assert list(haystack(conversations, 0)) == []


def test_evidence_that_is_nowhere_counts_as_not_found(tmp_path):
    path = tmp_path / "lost.json"
    lost = [{**SAMPLE[0], "questions": [asked("What did Ines buy?", 4, "a1", "z9")]}]
    path.write_text(json.dumps(lost), encoding="utf-8")
    assert json.loads(run(path, "--json").stdout)["at_5"] == 0.5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        (b"", "not a set of conversations"),
        (b"\xff\xfe", "not a set of conversations"),
        (b'{"id": 1}', "not a set of conversations"),
        (b'[{"id": "x", "sessions": [{"date": "2024-01-01"}], "questions": []}]', "turns"),
        (b"[]", "no question with evidence"),
        (json.dumps([{**SAMPLE[0], "sessions": [{"date": "soon", "turns": []}]}]).encode(), "'soon' is not a date"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, content, says):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_bytes(content)
    done = run(path)
    assert done.exit_code == 2
    assert says in done.stderr
    assert json.loads(run(path, "--json").stdout)["error"]["code"] == "invalid_input"
