"""The right to give a command, for every command, every kind of sender and every kind of chat."""

from itertools import product

import pytest

from holdfast.sessions.command import Verb
from holdfast.sessions.command_rights import (
    NEEDS,
    Place,
    Rank,
    Speaker,
    asks_rank,
    delete_word,
    judge,
    place_of,
    typed_word,
)

HARMLESS = {Verb.HELP, Verb.STATUS}
KEEPING = {Verb.TITLE, Verb.COMPRESS}
WHOLE = {Verb.NEW, Verb.RESUME, Verb.BRANCH, Verb.DELETE}
TURNS = {Verb.UNDO, Verb.RETRY, Verb.STOP}
CALLS = {Verb.APPROVE, Verb.DENY}
# What a person may do without being an operator: (place, rank, owns) to the commands.
MEMBERS = {
    (Place.PRIVATE, Rank.MEMBER, False): WHOLE | TURNS | CALLS,
    (Place.PRIVATE, Rank.UNKNOWN, False): WHOLE | TURNS | CALLS,
    (Place.GROUP, Rank.ADMIN, False): WHOLE | TURNS | CALLS,
    (Place.GROUP, Rank.MEMBER, False): set(),
    (Place.GROUP, Rank.MEMBER, True): TURNS | CALLS,
    (Place.GROUP, Rank.UNKNOWN, False): set(),
    (Place.GROUP, Rank.UNKNOWN, True): TURNS | CALLS,
    (Place.SHARED, Rank.MEMBER, False): set(),
    (Place.SHARED, Rank.MEMBER, True): TURNS | CALLS,
    (Place.SHARED, Rank.ADMIN, False): set(),
}
GROUP = "agent:main:telegram:group:-100"


def test_every_command_has_a_rule():
    assert set(NEEDS) == set(Verb) == HARMLESS | KEEPING | WHOLE | TURNS | CALLS


@pytest.mark.parametrize(("case", "verb"), list(product(MEMBERS, Verb)), ids=str)
def test_what_a_person_may_do(case, verb):
    place, rank, owns = case
    refused = judge(verb, Speaker(human=True, place=place, rank=rank), owns=owns)
    assert (refused is None) is (verb in MEMBERS[case] | HARMLESS | KEEPING)


@pytest.mark.parametrize(("place", "verb"), list(product(Place, Verb)), ids=str)
@pytest.mark.parametrize("how", [{"rank": Rank.OPERATOR}, {"is_named": True}], ids=["token", "named"])
def test_an_operator_may_do_everything_everywhere(place, verb, how):
    assert judge(verb, Speaker(human=True, place=place, **how), is_approver=False) is None


@pytest.mark.parametrize(("place", "rank", "verb"), list(product(Place, Rank, Verb)), ids=str)
@pytest.mark.parametrize("is_named", [False, True])
def test_a_program_changes_nothing_anywhere_whatever_it_is_named_as(place, rank, verb, is_named):
    speaker = Speaker(human=False, place=place, rank=rank, is_named=is_named)
    refused = judge(verb, speaker, owns=True, is_approver=True)
    assert (refused is None) is (verb in HARMLESS)
    if refused is not None:
        assert (refused.code, refused.text.startswith(f"/{verb.value} is for people")) == ("robot", True)


@pytest.mark.parametrize(("place", "rank"), list(product(Place, (Rank.MEMBER, Rank.ADMIN))), ids=str)
@pytest.mark.parametrize("verb", [Verb.APPROVE, Verb.DENY], ids=str)
def test_where_approvers_are_named_only_they_decide(place, rank, verb):
    speaker = Speaker(human=True, place=place, rank=rank)
    assert judge(verb, speaker, owns=True, is_approver=True) is None
    refused = judge(verb, speaker, owns=True, is_approver=False)
    assert refused is not None
    assert refused.text.startswith("Only a named approver or an operator may give")


@pytest.mark.parametrize(
    ("verb", "speaker", "text"),
    [
        (
            Verb.DELETE,
            Speaker(human=True, place=Place.GROUP),
            "Only an admin of this group or an operator may give /delete here. Nothing was changed.",
        ),
        (
            Verb.UNDO,
            Speaker(human=True, place=Place.GROUP),
            (
                "Only the person whose turns they all are, an admin of this group or an operator may give /undo here. "
                "Nothing was changed."
            ),
        ),
        (
            Verb.NEW,
            Speaker(human=True, place=Place.SHARED),
            "Only an operator may give /new here, where several people talk. Nothing was changed.",
        ),
        (
            Verb.APPROVE,
            Speaker(human=True, place=Place.SHARED),
            (
                "Only the person who asked for the call or an operator may give /approve here, where several people "
                "talk. Nothing was changed."
            ),
        ),
        (
            Verb.NEW,
            Speaker(human=True, place=Place.GROUP, rank=Rank.UNKNOWN),
            (
                "Only an admin of this group or an operator may give /new here. Nothing was changed. The platform "
                "could not be asked whether you are an admin; if you are, try again in a moment."
            ),
        ),
    ],
    ids=str,
)
def test_a_refusal_says_who_may(verb, speaker, text):
    refused = judge(verb, speaker)
    assert refused is not None
    assert (refused.code, refused.text) == ("not_yours", text)


@pytest.mark.parametrize(
    ("address", "several", "place"),
    [
        (GROUP, False, Place.GROUP),
        (f"{GROUP}:7", False, Place.GROUP),  # a topic of it
        (f"{GROUP}::42", False, Place.PRIVATE),  # a session of one's own in it
        (f"{GROUP}:7:42", False, Place.PRIVATE),
        ("agent:main:telegram:channel:-100", False, Place.GROUP),
        ("agent:main:telegram:dm:42", False, Place.PRIVATE),
        ("agent:main:telegram:dm:42", True, Place.PRIVATE),  # the platform vouches for it
        ("agent:main:http:dm:family", False, Place.PRIVATE),
        ("agent:main:http:dm:family", True, Place.SHARED),
        ("agent:main:openai:dm:family", True, Place.SHARED),
        ("agent:main:terminal:dm:me", True, Place.SHARED),
    ],
)
def test_what_a_chat_is(address, several, place):
    assert place_of(address, several=several) is place


@pytest.mark.parametrize(
    ("text", "address", "human", "asked"),
    [
        ("/delete", GROUP, True, True),
        ("/approve K7M2QX", GROUP, True, True),
        (" /stop", GROUP, True, True),
        ("/delete", GROUP, False, False),
        ("/delete", f"{GROUP}::42", True, False),
        ("/delete", "agent:main:telegram:dm:42", True, False),
        ("/title x", GROUP, True, False),
        ("/status", GROUP, True, False),
        ("hello", GROUP, True, False),
        ("/delte", GROUP, True, False),
    ],
)
def test_a_platform_is_asked_only_for_a_command_that_may_depend_on_it(text, address, human, asked):
    assert asks_rank(text, address, human=human) is asked


def test_the_word_that_confirms_a_deletion_is_of_one_session_as_it_stands_and_of_one_person():
    word = delete_word("ses_1", 7, "ada")
    assert word == delete_word("ses_1", 7, "ada")
    others = {delete_word("ses_2", 7, "ada"), delete_word("ses_1", 8, "ada"), delete_word("ses_1", 7, "bob")}
    assert len({word, *others}) == 4
    assert typed_word(f" `{word.lower()}` ") == word
