"""A change that weakens compression shows (R29): a broken summariser or compressor falls below the baseline.

The baseline in bench/results is what the code of the same commit scores, so neither a loss nor a gain goes unnoticed.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.eval.compression import CompressionReport, EvaluationPlan, measure
from holdfast.eval.compression.report import fallen
from holdfast.kernel.errors import ModelFailed, ProviderFailed
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.delivery import Delivered, Landing, Outcome, Parcel, PerSession, Unreachable
from holdfast.memory.provider import Capabilities, Configured
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.models.practice import EARLIER, PracticeModel, SummaryLines
from holdfast.sessions import compressor
from holdfast.turns.context import ModelMessage, summary_request
from holdfast.turns.model import ModelAnswer, ModelEvent, ModelRequest, ModelTask

BASELINE = Path(__file__).parents[2] / "bench" / "results" / "compression-baseline.json"
SMALL = EvaluationPlan(turns=96, facts=42, compressions=4, recall=False)
CORRECTING = re.compile(r"Correction|Actually|got it wrong|has changed")
Change = Callable[[Sequence[ModelMessage]], Sequence[ModelMessage]]


class Broken(PracticeModel):
    """The practice model, shown something else than what it is asked to summarise."""

    def __init__(self, change: Change) -> None:
        self._change = change

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        shown = (
            request
            if request.task is ModelTask.REPLY
            else replace(request, messages=tuple(self._change(request.messages)))
        )
        async for event in super().ask(shown):
            yield event


def drop_earlier_summary(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    return [message for message in messages if not message.content.startswith(EARLIER)]


def drop_newest(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    return messages[: len(messages) // 2]


def keep_void_values(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    def uncorrected(text: str) -> str:
        return " ".join(part for part in re.split(r"(?<=[.!?]) ", text) if not CORRECTING.search(part))

    return [
        replace(one, content=uncorrected(one.content)) if one.role == "user" and not one.data else one
        for one in messages
    ]


@pytest.fixture(scope="module")
def sound() -> CompressionReport:
    return asyncio.run(measure(SMALL, summariser=PracticeModel()))


# --- it can be repeated ------------------------------------------------------------------------------------------


async def test_the_same_seed_gives_the_same_report_and_another_one_another(sound):
    assert await measure(SMALL, summariser=PracticeModel()) == sound
    assert await measure(replace(SMALL, seed=2), summariser=PracticeModel()) != sound


async def test_every_number_of_compressions_is_scored_over_what_was_said_by_then(sound):
    assert [one.compressions for one in sound.rounds] == [1, 2, 3, 4]
    assert sound.rounds[0].asked < sound.rounds[-1].asked == SMALL.facts
    for one in sound.rounds:
        assert one.asked == one.in_tail + one.in_summary + one.stale + one.lost
        assert one.tokens_after < one.tokens_before <= 1.1 * sound.context_tokens
        assert 0 < one.summary_tokens <= sound.summary_tokens_max
    assert sum(one.asked for one in sound.distances) == sum(one.asked for one in sound.rounds)
    assert [one.summaries for one in sound.distances] == [0, 1, 2, 3, 4]


async def test_the_practice_summaries_mean_something(sound):
    assert sound.score > 0.9
    assert sound.failures == []


# --- teeth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [drop_earlier_summary, drop_newest, keep_void_values])
async def test_a_broken_summariser_falls_below_the_baseline(sound, change):
    broken = await measure(SMALL, summariser=Broken(change))
    assert broken.score < sound.score
    assert fallen(broken, sound)[0].startswith("the score fell")


async def test_a_void_value_that_passes_for_current_is_counted_as_such(sound):
    broken = await measure(SMALL, summariser=Broken(keep_void_values))
    assert sound.rounds[-1].stale == 0
    assert broken.rounds[-1].stale > 0
    assert broken.kinds["correction"].score < sound.kinds["correction"].score


async def test_a_summary_that_claims_both_values_is_no_better(sound, monkeypatch):
    monkeypatch.setattr(SummaryLines, "correct", lambda *_: None)
    both = await measure(SMALL, summariser=PracticeModel())
    assert both.rounds[-1].stale > 0
    assert "the score of the kind correction" in " ".join(fallen(both, sound))


async def test_a_compressor_that_forgets_its_earlier_summary_falls_below_the_baseline(sound, monkeypatch):
    forgetful = lambda _base, covered, *rest, **how: summary_request(None, covered, *rest, **how)  # noqa: E731
    monkeypatch.setattr(compressor, "summary_request", forgetful)
    assert fallen(await measure(SMALL, summariser=PracticeModel()), sound) != []


class Silent(PracticeModel):
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield ModelAnswer(text="" if request.task is ModelTask.SUMMARY else "hm")


async def test_a_compression_that_fails_keeps_nothing_and_says_why(sound):
    """The history is whole after it, so that looking alone would find everything."""
    report = await measure(SMALL, summariser=Silent())
    assert report.score == 0.0
    assert report.failures[0] == "compression 1: failed: the model answered nothing"
    assert len(report.failures) == 4
    assert fallen(report, sound) != []


# --- asking a model ----------------------------------------------------------------------------------------------


class Knowing(PracticeModel):
    """Answers with everything it is shown."""

    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        assert request.messages[-1].content.endswith("?")
        yield ModelAnswer(text="\n".join(message.content for message in request.messages))


class Ignorant(PracticeModel):
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield ModelAnswer(text="I do not know.")


class Gone(PracticeModel):
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        raise ModelFailed("the vendor is on holiday")
        yield ModelAnswer(text="")


TINY = EvaluationPlan(turns=16, facts=7, compressions=1, recall=False)


async def test_a_model_that_is_asked_is_scored_by_its_answers():
    known = await measure(TINY, summariser=PracticeModel(), asked=Knowing())
    unknown = await measure(TINY, summariser=PracticeModel(), asked=Ignorant())
    assert known.rounds[0].answered is not None
    assert known.rounds[0].answered > 0.5
    assert unknown.rounds[0].answered == 0.0
    assert known.score == unknown.score


async def test_a_model_that_does_not_answer_ends_the_measurement():
    with pytest.raises(ModelFailed, match="on holiday"):
        await measure(TINY, summariser=PracticeModel(), asked=Gone())


# --- recall ------------------------------------------------------------------------------------------------------


class Shelf:
    """A provider that keeps turns and finds those that share a word with the question."""

    capabilities = Capabilities(renderer="shelf 1")

    def __init__(self, *, outcome: Outcome | None = None) -> None:
        self.outcome = outcome
        self.said: list[tuple[int, str]] = []
        self.closed = False

    async def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Outcome]:
        self.said += [(turn.n, line.text) for parcel in parcels for turn in parcel.turns for line in turn.lines]
        return [self.outcome or Delivered() for _ in parcels]

    async def landed(self, parcel: Parcel) -> Landing:
        return Landing.POSSIBLE

    async def recall(self, query: RecallQuery) -> Sequence[Recollection]:
        names = [word for word in re.findall(r"\w+", query.text)[1:] if word[0].isupper()]
        found = [(n, text) for n, text in self.said if any(name in text for name in names)]
        return [Recollection(provider=ProviderName("shelf"), text=text, turn=n) for n, text in reversed(found)]

    async def healthy(self) -> str | None:
        return None

    async def close(self) -> None:
        self.closed = True


async def test_what_only_recall_kept_is_told_apart_and_does_not_change_the_score():
    shelf = Shelf()
    broken = Broken(drop_earlier_summary)
    without = await measure(SMALL, summariser=broken)
    report = await measure(
        replace(SMALL, recall=True), summariser=broken, provider=Configured(shelf, naming=PerSession())
    )
    last = report.rounds[-1]
    assert last.only_by_recall is not None
    assert last.score_with_recall is not None
    assert last.only_by_recall > 0
    assert last.score == without.rounds[-1].score < last.score_with_recall
    assert (report.recall, without.recall) == ("shelf 1", "off")
    assert without.rounds[-1].score_with_recall is None
    assert shelf.closed


async def test_without_another_provider_the_local_one_is_asked():
    report = await measure(replace(SMALL, recall=True), summariser=Broken(drop_earlier_summary))
    assert report.recall.startswith("local")
    last = report.rounds[-1]
    assert last.score_with_recall is not None
    assert last.score < last.score_with_recall


async def test_a_provider_that_takes_nothing_ends_the_measurement():
    shelf = Shelf(outcome=Unreachable("nobody there"))
    with pytest.raises(ProviderFailed, match="shelf 1 did not store turn 1"):
        await measure(
            replace(TINY, recall=True), summariser=PracticeModel(), provider=Configured(shelf, naming=PerSession())
        )
    assert shelf.closed


# --- the command -------------------------------------------------------------------------------------------------


def command(*arguments: str):
    return CliRunner().invoke(app, ["eval", "compression", "--no-recall", *arguments])


def test_the_code_scores_what_its_baseline_says():
    done = command("--baseline", str(BASELINE), "--json")
    assert done.exit_code == 0, json.loads(done.stdout)["fell"]
    assert json.loads(done.stdout) == json.loads(BASELINE.read_text()), "better than before: write the baseline again"


def test_the_command_fails_when_a_score_fell_below_the_baseline(monkeypatch):
    monkeypatch.setattr("holdfast.eval.compression.run.model_named", lambda _name: Broken(drop_earlier_summary))
    done = command("--baseline", str(BASELINE))
    assert done.exit_code == 1
    assert "the score fell from " in done.stdout


SHORT = ("--turns", "16", "--facts", "7", "--compressions", "1")


def test_people_get_tables_and_programs_get_json():
    told = command(*SHORT)
    assert told.exit_code == 0
    assert "of the facts are kept by practice summaries" in told.stdout
    report = json.loads(command(*SHORT, "--json").stdout)
    assert (report["ok"], report["turns"], report["recall"]) == (True, 16, "off")
    assert 0 <= report["score"] <= 1


def test_a_failed_compression_fails_the_command(monkeypatch):
    monkeypatch.setattr("holdfast.eval.compression.run.model_named", lambda _name: Silent())
    done = command(*SHORT)
    assert done.exit_code == 1
    assert "compression 1: failed: the model answered nothing" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--turns", "7"), 2, "Invalid value for '--turns'"),
        (("--compressions", "7"), 2, "Invalid value for '--compressions'"),
        (("--turns", "16", "--facts", "17", "--compressions", "1"), 1, "facts is 17"),
        (("--turns", "16", "--facts", "7"), 1, "turns is 16; 6 compressions need from 24"),
        (("--model", "oracle"), 1, "there is no model 'oracle'"),
        (("--baseline", "nowhere.json"), 1, "nowhere.json cannot be read"),
        (("--seed", "9", "--baseline", str(BASELINE)), 1, "measured with seed 1, and this is seed 9"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is_done(arguments, code, told):
    done = command(*arguments)
    assert done.exit_code == code
    assert told in done.output
