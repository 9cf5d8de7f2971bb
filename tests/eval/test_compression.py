"""The measurement of compression can be believed: what it plants can be found again only where it was kept.

Facts and talk come from the seed alone, a value is never there by accident, and a void value never counts as known.
"""

from dataclasses import replace

import msgspec
import pytest

from holdfast.eval.compression.conversation import PlantedConversation, make_conversation
from holdfast.eval.compression.facts import Fact, FactKind
from holdfast.eval.compression.report import (
    CompressionReport,
    CompressionRound,
    FactFinding,
    ScoreShare,
    check_comparable,
    distances_of,
    fallen,
    gone_of,
    kinds_of,
    read_baseline,
)
from holdfast.eval.compression.retention import Retention, is_answered, where_kept
from holdfast.eval.compression.run import model_named, window_of
from holdfast.kernel.errors import ConfigInvalid, InvalidInput
from holdfast.testing import SeededEntropy


def conversation(seed: int = 1, *, turns: int = 60, facts: int = 42, compressions: int = 3) -> PlantedConversation:
    return make_conversation(SeededEntropy(seed), turns=turns, facts=facts, compressions=compressions)


BOAT = Fact(kind=FactKind.NAME, speaker="user", said="", question="", value="Bitazum")
LEASE = Fact(kind=FactKind.DATE, speaker="user", said="", question="", value="6 November 2037")
BUDGET = Fact(
    kind=FactKind.CORRECTION,
    speaker="user",
    said="Correction: the budget is 52300 euros.",
    question="What is the budget?",
    value="52300",
    first="The budget is 41250 euros.",
    stale="41250",
)

# --- the conversation --------------------------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_conversation_and_another_one_another():
    assert conversation(1) == conversation(1)
    assert conversation(1) != conversation(2)


@pytest.mark.parametrize("seed", range(5))
def test_every_fact_is_said_once_and_where_it_says(seed):
    made = conversation(seed)
    for one in made.planted:
        assert [n for n, said in enumerate(made.exchanges, 1) if one.fact.said in said.user + said.assistant] == [
            one.turn
        ]
        assert one.fact.said in getattr(made.exchanges[one.turn - 1], one.fact.speaker)
    assert {one.fact.kind for one in made.planted} == set(FactKind)


@pytest.mark.parametrize("seed", range(5))
def test_a_value_stands_nowhere_but_in_its_own_sentence(seed):
    made = conversation(seed)
    values = [value for one in made.planted for value in (one.fact.value, one.fact.stale) if value]
    assert len(values) == len(set(values))
    for one in made.planted:
        others = [said.user + said.assistant for n, said in enumerate(made.exchanges, 1) if n != one.turn]
        assert where_kept(replace(one.fact, stale=""), "", others) is Retention.LOST


@pytest.mark.parametrize("seed", range(5))
def test_a_correction_comes_after_what_it_corrects(seed):
    corrected = [one for one in conversation(seed).planted if one.fact.kind is FactKind.CORRECTION]
    assert corrected
    assert all(one.first_turn is not None and one.first_turn < one.turn for one in corrected)


def test_the_stretches_between_compressions_are_the_whole_conversation_and_each_fills_the_window():
    made = conversation(turns=50, compressions=6)
    assert [turn for segment in made.segments for turn in segment] == list(range(1, 51))
    for segment in made.segments:
        assert sum(made.exchanges[turn - 1].tokens for turn in segment) >= 0.6 * window_of(made) - 1


@pytest.mark.parametrize(
    ("turns", "facts", "compressions", "told"),
    [
        (60, 1, 0, "compressions is 0; it must be from 1 to 6"),
        (60, 1, 7, "compressions is 7"),
        (20, 1, 6, "turns is 20; 6 compressions need from 24"),
        (20_001, 1, 6, "turns is 20001"),
        (60, 0, 3, "facts is 0"),
        (60, 61, 3, "facts is 61; it must be from 1 to the number of turns, which is 60"),
    ],
)
def test_numbers_that_make_no_conversation_are_refused_with_the_number(turns, facts, compressions, told):
    with pytest.raises(InvalidInput, match=told):
        conversation(turns=turns, facts=facts, compressions=compressions)


def test_values_do_not_run_out():
    assert len(conversation(turns=2_000, facts=2_000, compressions=6).planted) == 2_000


# --- what counts as kept -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fact", "summary", "tail", "kept"),
    [
        (BOAT, "", [], Retention.LOST),
        (BOAT, "the boat is the Bitazum", [], Retention.SUMMARY),
        (BOAT, "The boat: BITAZUM.", [], Retention.SUMMARY),
        (BOAT, "the boat is the Bitazuma", [], Retention.LOST),
        (BOAT, "", ["a", "it is called Bitazum"], Retention.TAIL),
        (LEASE, "The lease ends 2037-11-06.", [], Retention.SUMMARY),
        (LEASE, "The lease ends on November 6, 2037.", [], Retention.SUMMARY),
        (LEASE, "The lease ends on 6 Nov 2037.", [], Retention.SUMMARY),
        (LEASE, "The lease ends on 16 November 2037.", [], Retention.LOST),
        (LEASE, "The lease ends in November 2037.", [], Retention.LOST),
        (BUDGET, "The budget is 52,300 euros.", [], Retention.SUMMARY),
        (BUDGET, "The budget is 41250 euros.", [], Retention.STALE),
        (BUDGET, "The budget is 41250 euros.\nThe budget is 52300 euros.", [], Retention.STALE),
        (BUDGET, "The budget is 52300 euros, not 41250.", [], Retention.SUMMARY),
        (BUDGET, "The budget is 52300 euros. It was 41250 before.", [], Retention.SUMMARY),
        (BUDGET, "The budget is 41250 euros.", ["Correction: the budget is 52300 euros."], Retention.TAIL),
        (BUDGET, "", ["The budget is 41250 euros.", "Correction: it is 52300 euros."], Retention.TAIL),
        (BUDGET, "", ["Fine. The budget is 41250 euros."], Retention.STALE),
        (BUDGET, "nothing", ["nothing"], Retention.LOST),
    ],
)
def test_a_fact_is_kept_where_its_newest_value_stands_and_no_void_one_passes_for_it(fact, summary, tail, kept):
    assert where_kept(fact, summary, tail) is kept


@pytest.mark.parametrize(
    ("fact", "summary", "recalled", "kept"),
    [
        (BOAT, "", ["it is called Bitazum"], Retention.RECALL),
        (BOAT, "Bitazum it is", ["it is called Bitazum"], Retention.SUMMARY),
        (BOAT, "", ["something else"], Retention.LOST),
        (BUDGET, "", ["The budget is 41250 euros.", "Correction: it is 52300 euros."], Retention.RECALL),
        (BUDGET, "", ["The budget is 41250 euros."], Retention.STALE),
        (BUDGET, "The budget is 41250 euros.", ["Correction: it is 52300 euros."], Retention.STALE),
    ],
)
def test_recall_counts_only_for_what_the_context_lost(fact, summary, recalled, kept):
    assert where_kept(fact, summary, [], recalled) is kept


def test_an_answer_counts_when_it_has_the_newest_value_only():
    assert is_answered(BUDGET, "It is 52,300 euros.")
    assert is_answered(BUDGET, "It is 52300 euros; it was 41250.")
    assert not is_answered(BUDGET, "It is 41250 euros.")
    assert not is_answered(BUDGET, "Either 52300 euros. Or: it is 41250 euros.")
    assert not is_answered(BUDGET, "I do not know.")


# --- the report --------------------------------------------------------------------------------------------------


def finding(kept: Retention, *, fact: Fact = BOAT, compressions: int = 1, summaries: int = 1) -> FactFinding:
    return FactFinding(fact=fact, turn=3, compressions=compressions, summaries=summaries, kept=kept)


def report(*scores: float, model: str = "practice", kinds: dict[str, float] | None = None) -> CompressionReport:
    rounds = [
        CompressionRound(
            compressions=n,
            asked=0,
            kept=0,
            score=score,
            in_tail=0,
            in_summary=0,
            stale=0,
            lost=0,
            tokens_before=0,
            tokens_after=0,
            summary_tokens=0,
        )
        for n, score in enumerate(scores, 1)
    ]
    return CompressionReport(
        model=model,
        seed=1,
        turns=60,
        facts=10,
        compressions=len(scores),
        context_tokens=4000,
        summary_tokens_max=800,
        score=sum(scores) / len(scores),
        rounds=tuple(rounds),
        kinds={kind: ScoreShare(asked=1, kept=1, score=score) for kind, score in (kinds or {}).items()},
        distances=(),
        recall="off",
    )


def test_shares_are_told_by_kind_and_by_distance():
    found = [
        finding(Retention.TAIL, summaries=0),
        finding(Retention.SUMMARY),
        finding(Retention.LOST),
        finding(Retention.STALE, fact=BUDGET, summaries=2),
        finding(Retention.RECALL, fact=BUDGET, summaries=2),
    ]
    assert kinds_of(found) == {
        "name": ScoreShare(asked=3, kept=2, score=0.6667),
        "correction": ScoreShare(asked=2, kept=0, score=0.0),
    }
    assert [(one.summaries, one.asked, one.kept) for one in distances_of(found)] == [(0, 1, 1), (1, 2, 1), (2, 2, 0)]


def test_only_what_is_gone_at_the_end_is_listed():
    found = [
        finding(Retention.LOST),
        finding(Retention.SUMMARY, compressions=2),
        finding(Retention.STALE, fact=BUDGET, compressions=2),
    ]
    assert [(one.kind, one.value, one.how) for one in gone_of(found)] == [("correction", "52300", "stale")]


def test_a_score_below_the_baseline_is_told_and_one_above_is_not():
    baseline = report(1.0, 0.8, kinds={"name": 0.9, "date": 0.9})
    assert fallen(baseline, baseline) == []
    assert fallen(report(1.0, 0.9, kinds={"name": 0.9, "date": 1.0}), baseline) == []
    worse = fallen(report(1.0, 0.79, kinds={"name": 0.9, "date": 0.85}), baseline)
    assert worse == [
        "the score fell from 90.0% to 89.5%",
        "the score after 2 compressions fell from 80.0% to 79.0%",
        "the score of the kind date fell from 90.0% to 85.0%",
    ]


def test_a_gain_after_one_compression_does_not_hide_a_loss_after_two():
    assert fallen(report(0.9, 0.7), report(0.8, 0.8)) == ["the score after 2 compressions fell from 80.0% to 70.0%"]


def test_a_language_model_may_vary_a_little():
    baseline = report(1.0, 0.8, model="somebody's")
    assert fallen(report(0.98, 0.78, model="somebody's"), baseline) == []
    assert fallen(report(0.98, 0.7, model="somebody's"), baseline) != []


def test_a_report_that_was_printed_can_be_read_as_a_baseline(tmp_path):
    file = tmp_path / "before.json"
    file.write_bytes(msgspec.json.encode({**msgspec.to_builtins(report(1.0, 0.5)), "ok": True, "fell": []}))
    assert read_baseline(file) == report(1.0, 0.5)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"model": 7}', b"\xff\xfe", b"null"])
def test_a_baseline_that_is_no_report_is_refused_with_its_name(tmp_path, raw):
    file = tmp_path / "before.json"
    file.write_bytes(raw)
    with pytest.raises(InvalidInput, match=r"before\.json is not a report of `holdfast eval compression --json`"):
        read_baseline(file)


def test_a_baseline_that_cannot_be_read_is_refused_with_the_reason(tmp_path):
    with pytest.raises(InvalidInput, match="nowhere cannot be read: No such file"):
        read_baseline(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_baseline(tmp_path)


def test_scores_of_different_conversations_are_not_compared():
    check_comparable(report(1.0), turns=60, seed=1)
    with pytest.raises(InvalidInput, match="measured with turns 60, and this is turns 90: set --turns 60"):
        check_comparable(report(1.0), seed=1, turns=90)


def test_a_model_that_does_not_exist_is_refused_with_those_that_do():
    assert model_named("practice").name == "practice"
    with pytest.raises(ConfigInvalid, match="there is no model 'oracle'; use \"practice\""):
        model_named("oracle")
