"""The right to give a command, for every command, every kind of sender and every kind of chat."""

from itertools import product

import pytest

from holdfast.sessions.command import CommandVerb
from holdfast.sessions.command_rights import (
    NEEDS,
    CommandPlace,
    Rank,
    Speaker,
    asks_rank,
    delete_word,
    judge,
    place_of,
    typed_word,
)

HARMLESS = {CommandVerb.HELP, CommandVerb.STATUS}
KEEPING = {CommandVerb.TITLE, CommandVerb.COMPRESS}
WHOLE = {CommandVerb.NEW, CommandVerb.RESUME, CommandVerb.BRANCH, CommandVerb.DELETE}
TURNS = {CommandVerb.UNDO, CommandVerb.RETRY, CommandVerb.STOP}
CALLS = {CommandVerb.APPROVE, CommandVerb.DENY}
# What a person may do without being an operator: (place, rank, owns) to the commands.
MEMBERS = {
    (CommandPlace.PRIVATE, Rank.MEMBER, False): WHOLE | TURNS | CALLS,
    (CommandPlace.PRIVATE, Rank.UNKNOWN, False): WHOLE | TURNS | CALLS,
    (CommandPlace.GROUP, Rank.ADMIN, False): WHOLE | TURNS | CALLS,
    (CommandPlace.GROUP, Rank.MEMBER, False): set(),
    (CommandPlace.GROUP, Rank.MEMBER, True): TURNS | CALLS,
    (CommandPlace.GROUP, Rank.UNKNOWN, False): set(),
    (CommandPlace.GROUP, Rank.UNKNOWN, True): TURNS | CALLS,
    (CommandPlace.SHARED, Rank.MEMBER, False): set(),
    (CommandPlace.SHARED, Rank.MEMBER, True): TURNS | CALLS,
    (CommandPlace.SHARED, Rank.ADMIN, False): set(),
}
GROUP = "agent:main:telegram:group:-100"


def test_every_command_has_a_rule():
    assert set(NEEDS) == set(CommandVerb) == HARMLESS | KEEPING | WHOLE | TURNS | CALLS


@pytest.mark.parametrize(("case", "verb"), list(product(MEMBERS, CommandVerb)), ids=str)
def test_what_a_person_may_do(case, verb):
    place, rank, owns = case
    refused = judge(verb, Speaker(human=True, place=place, rank=rank), owns=owns)
    assert (refused is None) is (verb in MEMBERS[case] | HARMLESS | KEEPING)


@pytest.mark.parametrize(("place", "verb"), list(product(CommandPlace, CommandVerb)), ids=str)
@pytest.mark.parametrize("how", [{"rank": Rank.OPERATOR}, {"is_named": True}], ids=["token", "named"])
def test_an_operator_may_do_everything_everywhere(place, verb, how):
    assert judge(verb, Speaker(human=True, place=place, **how), is_approver=False) is None


@pytest.mark.parametrize(("place", "rank", "verb"), list(product(CommandPlace, Rank, CommandVerb)), ids=str)
@pytest.mark.parametrize("is_named", [False, True])
def test_a_program_changes_nothing_anywhere_whatever_it_is_named_as(place, rank, verb, is_named):
    speaker = Speaker(human=False, place=place, rank=rank, is_named=is_named)
    refused = judge(verb, speaker, owns=True, is_approver=True)
    assert (refused is None) is (verb in HARMLESS)
    if refused is not None:
        assert (refused.code, refused.text.startswith(f"/{verb.value} is for people")) == ("robot", True)


@pytest.mark.parametrize(("place", "rank"), list(product(CommandPlace, (Rank.MEMBER, Rank.ADMIN))), ids=str)
@pytest.mark.parametrize("verb", [CommandVerb.APPROVE, CommandVerb.DENY], ids=str)
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
            CommandVerb.DELETE,
            Speaker(human=True, place=CommandPlace.GROUP),
            "Only an admin of this group or an operator may give /delete here. Nothing was changed.",
        ),
        (
            CommandVerb.UNDO,
            Speaker(human=True, place=CommandPlace.GROUP),
            (
                "Only the person whose turns they all are, an admin of this group or an operator may give /undo here. "
                "Nothing was changed."
            ),
        ),
        (
            CommandVerb.NEW,
            Speaker(human=True, place=CommandPlace.SHARED),
            "Only an operator may give /new here, where several people talk. Nothing was changed.",
        ),
        (
            CommandVerb.APPROVE,
            Speaker(human=True, place=CommandPlace.SHARED),
            (
                "Only the person who asked for the call or an operator may give /approve here, where several people "
                "talk. Nothing was changed."
            ),
        ),
        (
            CommandVerb.NEW,
            Speaker(human=True, place=CommandPlace.GROUP, rank=Rank.UNKNOWN),
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
        (GROUP, False, CommandPlace.GROUP),
        (f"{GROUP}:7", False, CommandPlace.GROUP),  # a topic of it
        (f"{GROUP}::42", False, CommandPlace.PRIVATE),  # a session of one's own in it
        (f"{GROUP}:7:42", False, CommandPlace.PRIVATE),
        ("agent:main:telegram:channel:-100", False, CommandPlace.GROUP),
        ("agent:main:telegram:dm:42", False, CommandPlace.PRIVATE),
        ("agent:main:telegram:dm:42", True, CommandPlace.PRIVATE),  # the platform vouches for it
        ("agent:main:http:dm:family", False, CommandPlace.PRIVATE),
        ("agent:main:http:dm:family", True, CommandPlace.SHARED),
        ("agent:main:openai:dm:family", True, CommandPlace.SHARED),
        ("agent:main:terminal:dm:me", True, CommandPlace.SHARED),
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
