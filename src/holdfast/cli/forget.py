"""`holdfast forget`: erase a person or a session, here and at every memory provider. `forget-status` shows how far."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.asking import Yes, ask
from holdfast.cli.options import Config, Data, Json

if TYPE_CHECKING:
    from holdfast.memory.forget import Forgetting

ForgetArgument = Annotated[str, typer.Argument(metavar="ID", help="The id that `holdfast forget` printed.")]


def forget(
    *,
    session: Annotated[str | None, typer.Option("--session", help="The session to forget.")] = None,
    person: Annotated[str | None, typer.Option("--person", help="The person to forget, as the sender's id.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only by this agent.", show_default="by all agents")
    ] = None,
    yes: Yes = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Erase a person or a session.

    What was said is blanked at once; the memory providers are told to erase what they have, however long that takes.
    It cannot be taken back, so it is asked about; where there is no terminal, --yes must be said. What others said
    stays.

    \b
    Examples:
      holdfast forget --person ada
      holdfast forget --person ada --agent main --yes --json
      holdfast forget --session ses_01k...
    """
    from holdfast.cli.running import run

    whom = f"session {session}" if session else f"{person} (by {agent or 'all agents'})"
    if session or person:  # otherwise what is wrong is said below
        ask(f"Forget {whom} for ever, here and at every memory provider?", yes=yes, as_json=as_json)
    run(lambda: _forget(session, person, agent, (data, config), as_json=as_json), as_json=as_json)


def forget_status(id: ForgetArgument, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Show how far a forgetting is, with each receipt.

    \b
    Examples:
      holdfast forget-status forget_01k...
    """
    from holdfast.cli.running import run

    run(lambda: _status(id, (data, config), as_json=as_json), as_json=as_json)


async def _forget(
    session: str | None,
    person: str | None,
    agent: str | None,
    where: tuple[Path | None, Path | None],
    *,
    as_json: bool,
) -> int:
    from holdfast.cli.opening import visiting

    act = "session.forgotten" if session is not None else "person.forgotten"
    async with visiting(*where, act=act, on=session or person or "") as runtime:
        return _show(await runtime.forget(session=session, person=person, agent=agent), as_json=as_json)


async def _status(id: str, where: tuple[Path | None, Path | None], *, as_json: bool) -> int:
    from holdfast.cli.opening import visiting

    async with visiting(*where) as runtime:
        return _show(await runtime.forget_status(id), as_json=as_json)


def _show(found: "Forgetting", *, as_json: bool) -> int:
    """Exit 1 where somebody has to act on a part that is parked."""
    from holdfast.api.shapes.forget import forget_view
    from holdfast.cli.output import print_heading, print_json, print_table, when
    from holdfast.cli.running import OK, WRONG

    view = forget_view(found)
    parked = any(part.state == "parked" for part in view.parts)
    if as_json:
        print_json(view)
        return WRONG if parked else OK
    print_heading(f"{view.forget}  {view.status}")
    counts = ", ".join(f"{count} {what}" for what, count in sorted(view.blanked.items()) if count)
    print(f"blanked: {counts or 'nothing, because nothing was found'}")
    for kept in view.kept:
        count = "" if kept.count is None else f" ({kept.count})"
        print(f"kept: {kept.what.replace('_', ' ')}{count}: {kept.why}")
    rows = [
        (
            part.provider or part.what,
            part.place,
            part.state,
            when(part.next_try_at or part.at),
            part.receipt or part.reason,
        )
        for part in view.parts
    ]
    print_table(("where", "place", "state", "at, or next try", "receipt or reason"), rows)
    return WRONG if parked else OK
