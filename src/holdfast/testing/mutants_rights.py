"""Guarantees about who may give which command, broken on purpose."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.command import Verb
from holdfast.core.command_rights import NotAllowed, Speaker, judge
from holdfast.stores.script import Script
from holdfast.stores.verbs import accept, approvals, commands, rights, turns
from holdfast.testing.mutant import Patch, mutant


def _open_to_people(*verbs: Verb) -> Callable[..., NotAllowed | None]:
    def broken(verb: Verb, speaker: Speaker, **about: Any) -> NotAllowed | None:  # noqa: ANN401
        return None if verb in verbs and speaker.human else judge(verb, speaker, **about)

    return broken


@mutant("I35", budget=60)
def anybody_decides() -> Sequence[Patch]:
    """Whoever says /approve or /deny decides, a program too."""

    def broken(_verb: Verb, _who: rights.Giver, **_about: Any) -> None:  # noqa: ANN401
        return None

    return [(approvals, "may_decide", broken)]


@mutant("I35", budget=60)
def anybody_deletes() -> Sequence[Patch]:
    """Every member of a group deletes its session."""
    return [(commands, "judge", _open_to_people(Verb.DELETE))]


@mutant("I35", budget=40)
def anybody_switches() -> Sequence[Patch]:
    """Every member of a group switches its session."""
    return [(commands, "judge", _open_to_people(Verb.NEW, Verb.RESUME, Verb.BRANCH))]


@mutant("I35", budget=60)
def anybody_undoes() -> Sequence[Patch]:
    """Every member of a group takes back and repeats the turns of others."""

    def broken(verb: Verb, who: rights.Giver, _turns: object) -> Script[NotAllowed | None]:
        yield from ()
        return judge(verb, who.speaker, owns=True)

    return [(commands, "judge_turns", broken), (turns, "judge_turns", broken)]


@mutant("I35", budget=80, first=36)
def anybody_stops() -> Sequence[Patch]:
    """Every member of a group stops the turns of others."""
    return [(accept, "judge", _open_to_people(Verb.STOP))]


@mutant("I35", budget=20)
def robot_commands() -> Sequence[Patch]:
    """A program gives commands as a person does."""
    honest = rights.giver

    def broken(verb: Verb, given: rights.Given) -> Script[rights.Giver]:
        return (yield from honest(verb, replace(given, human=True)))

    return [(module, "giver", broken) for module in (accept, approvals, commands, turns)]


@mutant("I35", budget=40, first=21)
def delete_asks_nothing() -> Sequence[Patch]:
    """The first /delete deletes."""
    honest = commands.run_command

    def broken(claim: Any, run: Any) -> Script[Any]:  # noqa: ANN401
        is_bare = run.command.verb is Verb.DELETE and not run.command.argument
        return (yield from honest(claim, replace(run, command=replace(run.command, argument="?")) if is_bare else run))

    def any_word(_argument: str) -> object:
        return Anything()

    return [(commands, "run_command", broken), (commands, "typed_word", any_word)]


class Anything:
    """Equal to every word."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False
