"""The promise: what answers a question ranks above what merely shares words with it. Sentences are made up here."""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.providers.local.ranking import (
    POSITION_BITS,
    POSITION_MASK,
    SCENE_LINES_MAX,
    TERMS_MAX,
    IndexedLine,
    TermMatches,
    Weights,
    final_score,
    first_scores,
    likely_lines,
    line_id,
    line_scores,
    names_of,
    read_question,
    scene_scores,
    spread_scores,
    strongest,
    with_scenes,
)
from holdfast.providers.local.tokenizer import stems, tells_time, words

DAY = 86_400_000
NOW = Instant(1_700_000_000_000)  # 14 November 2023


@dataclass
class Talk:
    """A little conversation, ranked as the local provider does it, without a database."""

    lines: list[IndexedLine] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def say(self, text, *, by="ada", scene=1, at=NOW, address=""):
        position = 1 + sum(line.id >> POSITION_BITS == scene for line in self.lines)
        said = list(words(text))
        cut = stems(said)
        line = IndexedLine(
            id=line_id(scene, position),
            speaker=by,
            address=address,
            at=Instant(at),
            size=len(cut),
            asks=text.endswith("?"),
            dated=tells_time(said),
            stems=f" {' '.join(cut)} ",
        )
        self.lines.append(line)
        self.texts.append(text)
        return self

    def best(self, text, **more):
        question = read_question(text, voices={line.speaker for line in self.lines}, now=NOW, **more)
        found = {term: [line.id for line in self.lines if f" {term} " in line.stems] for term in question.terms}
        sightings = [TermMatches(question.terms[term], lines, len(lines)) for term, lines in found.items()]
        worth = line_scores(self.lines, question, {term: len(some) for term, some in found.items()}, len(self.lines))
        places = {line.id >> POSITION_BITS for line in self.lines}
        scenes = scene_scores(sightings, len(places), places)
        spots = spread_scores(self.lines, worth)
        scores = with_scenes({line.id: spots.get(line.id, 0.0) for line in self.lines}, scenes)
        judged = sorted((final_score(line, scores[line.id], question) for line in self.lines), reverse=True)
        texts = {line.id: text for line, text in zip(self.lines, self.texts, strict=True)}
        return [texts[line] for _, line in judged]


def test_rare_words_count_for_more_than_frequent_ones():
    talk = Talk().say("the ferry was late", scene=1).say("the ferry was early", scene=2).say("a heron!", scene=3)
    assert talk.best("did the ferry meet a heron")[0] == "a heron!"


def test_an_answer_without_the_words_of_its_question_is_found_through_it():
    talk = (
        Talk()
        .say("Where did you put the spare ladder?", by="ben")
        .say("Behind the shed, under the tarp.", by="ada")
        .say("Fine.", by="ben")
        .say("The weather is dull.", by="ada", scene=2)
    )
    assert talk.best("where is the ladder")[:2] == [
        "Where did you put the spare ladder?",
        "Behind the shed, under the tarp.",
    ]


def test_worth_stays_inside_its_scene():
    spots = spread_scores([trace(1, position=1), trace(1, position=64)], {at(1, 1): 2.0, at(1, 64): 2.0})
    assert {line >> POSITION_BITS for line in spots} == {1}
    assert spots[at(1, 2)] > spots[at(1, 3)] > 0


def test_a_question_passes_more_on_to_what_follows_it():
    asking, telling = (spread_scores([trace(1, asks=asks)], {at(1, 1): 1.0}) for asks in (True, False))
    assert asking[at(1, 2)] > telling[at(1, 2)]


def at(scene, position):
    return line_id(scene, position)


def trace(scene, *, position=1, size=3, asks=False, stems=" kiln "):
    return IndexedLine(
        id=at(scene, position), speaker="", address="", at=NOW, size=size, asks=asks, dated=False, stems=stems
    )


def test_who_is_named_is_preferred():
    talk = Talk().say("I adopted a ferret.", by="ben", scene=1).say("I adopted a ferret.", by="ada", scene=2)
    talk.texts = ["ben's", "ada's"]
    assert talk.best("what did Ben adopt")[0] == "ben's"
    assert talk.best("what did Ada adopt")[0] == "ada's"


def test_i_is_the_asker_and_you_the_agent():
    talk = Talk().say("Try the harbour.", by="ada", scene=1).say("Try the harbour.", by="fern", scene=2)
    talk.texts = ["ada's", "fern's"]
    who = {"asker": Principal("ada"), "agent": AgentName("fern")}
    assert talk.best("what did I say about the harbour", **who)[0] == "ada's"
    assert talk.best("what did you say about the harbour", **who)[0] == "fern's"


def test_a_query_that_names_every_speaker_prefers_none():
    assert read_question("what do Ada and Ben cook", voices=["ada", "ben"]).speakers == frozenset()


def test_a_scene_about_the_matter_lifts_its_lines():
    talk = Talk().say("the kiln is cold", scene=1).say("nothing else", scene=1)
    for text in ("the kiln is hot", "the glaze cracked", "glaze again, and the kiln"):
        talk.say(text, scene=2)
    assert talk.best("kiln glaze").index("the kiln is hot") < talk.best("kiln glaze").index("the kiln is cold")


def test_when_prefers_what_tells_a_time():
    talk = Talk().say("We visited the lighthouse.", scene=1).say("We visited the lighthouse on Sunday.", scene=2)
    assert talk.best("When did we visit the lighthouse?")[0] == "We visited the lighthouse on Sunday."


@pytest.mark.parametrize(
    ("question", "asks"),
    [("when did we go", True), ("what day is it", True), ("which year was that", True), ("good day to you", False)],
)
def test_a_question_for_a_time_begins_like_one(question, asks):
    assert read_question(question, voices=[]).asks_when is asks


def test_a_scene_is_worth_more_the_more_of_its_lines_speak_of_the_matter():
    talk = Talk().say("kiln", scene=1).say("kiln", scene=2).say("kiln", scene=2)
    one, two, three = (line.id for line in talk.lines)
    worth = scene_scores([TermMatches(0.5, [one, two, three], 3)], 10, {1, 2})
    gain = scene_scores([TermMatches(1.0, [one, two], 2)], 10, {1, 2})[1] * 0.5
    assert worth[1] == pytest.approx(gain)
    half = Weights().scene_half
    assert worth[2] / worth[1] == pytest.approx((2 / (2 + half)) / (1 / (1 + half)))


def test_the_days_that_are_named_are_preferred():
    talk = Talk().say("rehearsal at noon", at=NOW, scene=1).say("rehearsal in the hall", at=NOW - 150 * DAY, scene=2)
    assert talk.best("what was the rehearsal in June 2023")[0] == "rehearsal in the hall"
    assert talk.best("what was the rehearsal in November 2023")[0] == "rehearsal at noon"


def test_the_newer_of_two_equal_lines_comes_first():
    talk = Talk().say("the code is blue", at=NOW - 300 * DAY, scene=1).say("the code is green", at=NOW, scene=2)
    assert talk.best("what is the code")[0] == "the code is green"


def test_this_chat_is_preferred_among_equals():
    talk = Talk().say("the code is blue", address="here", scene=1).say("the code is green", address="there", scene=2)
    assert talk.best("code", address="here")[0] == "the code is blue"


def test_a_synonym_helps_but_counts_for_less():
    question = read_question("what does her mom cook")
    assert question.terms["mom"] == 1.0
    assert question.terms["mother"] == Weights().synonym
    talk = Talk().say("my mother is a pilot", scene=1).say("a mom waved", scene=2).say("grey skies", scene=3)
    assert talk.best("mom")[:2] == ["a mom waved", "my mother is a pilot"]


def test_a_long_line_is_held_back():
    lines = [trace(1, size=4), trace(2, size=80)]
    worth = line_scores(lines, read_question("kiln"), {"kiln": 2}, 10)
    assert worth[lines[0].id] > worth[lines[1].id]


def test_nothing_asked_is_worth_nothing():
    assert line_scores([], read_question("kiln"), {}, 10) == {}
    assert likely_lines([], 10) == ({}, [])
    assert read_question("what is it?").terms == {}
    assert read_question("\0 \ud800 …").terms == {}


def test_a_pasted_page_is_asked_by_its_first_words():
    question = read_question(" ".join(f"word{n}" for n in range(1_000)))
    assert sum(weight == 1.0 for weight in question.terms.values()) == TERMS_MAX


@pytest.mark.parametrize(("voice", "names"), [("telegram:42:ada", {"telegram", "ada"}), ("42", set()), ("Al", set())])
def test_a_speaker_is_called_by_the_words_of_the_name(voice, names):
    assert names_of(voice) == names


@pytest.mark.parametrize(
    ("question", "speaker"),
    [
        *((f"what did {word} lose", "ada") for word in ("I", "me", "my", "mine", "myself", "im", "ive")),
        *((f"what did {word} lose", "fern") for word in ("you", "your", "yours", "yourself")),
    ],
)
def test_a_pronoun_means_the_asker_or_the_agent(question, speaker):
    asked = read_question(question, voices=("ada", "fern", "bob"), asker=Principal("ada"), agent=AgentName("fern"))
    assert asked.speakers == {speaker}


def test_what_was_said_just_now_is_worth_a_tenth_more_and_half_of_that_a_month_later():
    question = read_question("the harbour", now=NOW)
    now, month, ages = (
        final_score(trace(1)._replace(at=Instant(NOW - age)), 1.0, question)[0] for age in (0, 30 * DAY, 30_000 * DAY)
    )
    assert (now, month, ages) == pytest.approx((1.1, 1.05, 1.0))


def test_a_word_that_every_line_has_says_almost_nothing():
    lines = [trace(n) for n in range(1, 5)]
    question = read_question("kiln")
    everywhere, once = (line_scores(lines, question, {"kiln": found}, 4) for found in (4, 1))
    assert everywhere[lines[0].id] == pytest.approx(math.log(1 + 0.5 / 4.5))
    assert once[lines[0].id] == pytest.approx(math.log(1 + 3.5 / 1.5))


def test_two_words_in_a_row_count_for_more_than_two_words_apart():
    together, apart = trace(1, stems=" glaze kiln "), trace(2, stems=" kiln old glaze ")
    worth = line_scores([together, apart], read_question("the glaze kiln"), {"glaze": 2, "kiln": 2}, 10)
    assert worth[together.id] > worth[apart.id]


def test_a_line_without_a_word_of_the_question_is_worth_nothing_of_its_own():
    assert line_scores([trace(1, stems=" heron ")], read_question("kiln"), {"kiln": 1}, 10) == {at(1, 1): 0.0}


# --- candidates ------------------------------------------------------------------------------------


def test_the_first_score_of_a_line_is_the_sum_of_its_words():
    both, one = at(1, 1), at(2, 1)
    matches = [TermMatches(1.0, [both, one], 2), TermMatches(0.5, [both], 1)]
    scores = first_scores(matches, 10)
    assert scores[both] - scores[one] == pytest.approx(0.5 * math.log(1 + 9.5 / 1.5))


def test_of_equally_strong_lines_the_newer_are_taken():
    scores = {at(1, 1): 2.0, at(2, 1): 1.0, at(3, 1): 1.0, at(4, 1): 1.0, at(5, 1): 0.5}
    assert set(strongest(scores, 3)) == {at(1, 1), at(3, 1), at(4, 1)}
    assert set(strongest(scores, 9)) == set(scores)


def test_a_line_is_likely_for_its_scene_too():
    alone, among = at(9, 1), at(1, 1)
    kiln = TermMatches(1.0, [alone, among], 2)
    glaze = TermMatches(1.0, [at(1, 2), at(1, 3)], 2)
    assert likely_lines([kiln, glaze], 1_000)[1] == [at(1, 3), at(1, 2), among, alone]
    assert likely_lines([kiln], 1_000)[1] == [alone, among], "without its scene the newer one is first"


@given(st.integers(1, 2**25 - 1), st.integers(1, SCENE_LINES_MAX))
def test_the_number_of_a_line_tells_its_scene_and_position(scene, position):
    assert (line_id(scene, position) >> POSITION_BITS, line_id(scene, position) & POSITION_MASK) == (scene, position)
    assert line_id(scene, position) + max(Weights().around) < line_id(scene + 1, 1) + min(Weights().around)
