"""Guarantees about who may give which command, broken on purpose."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.inbox import accept_sql
from holdfast.sessions import command_rights_sql, command_sql
from holdfast.sessions.command import CommandVerb
from holdfast.sessions.command_rights import NotAllowed, Speaker, judge
from holdfast.store.script import Script
from holdfast.testing.mutant import Patch, mutant
from holdfast.turns import approval_sql, open_turn_sql


def _open_to_people(*verbs: CommandVerb) -> Callable[..., NotAllowed | None]:
    def broken(verb: CommandVerb, speaker: Speaker, **about: Any) -> NotAllowed | None:  # noqa: ANN401
        return None if verb in verbs and speaker.human else judge(verb, speaker, **about)

    return broken


@mutant("I35", budget=60, short=4)
def anybody_decides() -> Sequence[Patch]:
    """Any sender may /approve or /deny, programs included."""

    def broken(_verb: CommandVerb, _who: command_rights_sql.Giver, **_about: Any) -> None:  # noqa: ANN401
        return None

    return [(approval_sql, "may_decide", broken)]


@mutant("I35", budget=60, short=3)
def anybody_deletes() -> Sequence[Patch]:
    """Every member of a group deletes its session."""
    return [(command_sql, "judge", _open_to_people(CommandVerb.DELETE))]


@mutant("I35", budget=40, short=3)
def anybody_switches() -> Sequence[Patch]:
    """Every member of a group switches its session."""
    return [(command_sql, "judge", _open_to_people(CommandVerb.NEW, CommandVerb.RESUME, CommandVerb.BRANCH))]


@mutant("I35", budget=60, short=9)
def anybody_undoes() -> Sequence[Patch]:
    """Every member of a group undoes and retries the turns of others."""

    def broken(verb: CommandVerb, who: command_rights_sql.Giver, _turns: object) -> Script[NotAllowed | None]:
        yield from ()
        return judge(verb, who.speaker, owns=True)

    return [(command_sql, "judge_turns", broken), (open_turn_sql, "judge_turns", broken)]


@mutant("I35", budget=80, first=89)
def anybody_stops() -> Sequence[Patch]:
    """Every member of a group stops the turns of others."""
    return [(accept_sql, "judge", _open_to_people(CommandVerb.STOP))]


@mutant("I35", budget=20, short=4)
def robot_commands() -> Sequence[Patch]:
    """A program gives commands as a person does."""
    honest = command_rights_sql.giver

    def broken(verb: CommandVerb, given: command_rights_sql.Given) -> Script[command_rights_sql.Giver]:
        return (yield from honest(verb, replace(given, human=True)))

    return [(module, "giver", broken) for module in (accept_sql, approval_sql, command_sql, open_turn_sql)]


@mutant("I35", budget=40, first=21)
def delete_asks_nothing() -> Sequence[Patch]:
    """The first /delete deletes."""
    honest = command_sql.run_command.script

    def broken(claim: Any, run: Any) -> Script[Any]:  # noqa: ANN401
        is_bare = run.command.verb is CommandVerb.DELETE and not run.command.argument
        return (yield from honest(claim, replace(run, command=replace(run.command, argument="?")) if is_bare else run))

    def any_word(_argument: str) -> object:
        return Anything()

    return [(command_sql, "run_command", broken), (command_sql, "typed_word", any_word)]


class Anything:
    """A value that equals every text."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False
