"""`holdfast forget`: erase a person or a session, here and at memory providers. `forgetting` shows the progress."""

from typing import Annotated

import typer

from holdfast.api.shapes.memory import forget_view
from holdfast.cli.command import Invocation, Runtime, command, visitor
from holdfast.cli.output import OK, WRONG, Heading, Output, TextTable, when
from holdfast.cli.progress import progress
from holdfast.memory.forget import Forgetting


def _question(session: str | None, person: str | None, agent: str | None) -> str:
    if not session and not person:
        return ""  # the command itself reports what is missing
    whom = f"session {session}" if session else f"{person} (by {agent or 'all agents'})"
    return f"Permanently erase {whom}, here and at every memory provider?"


@command(config=True, times=True, confirm=_question)
async def forget(
    invocation: Invocation,
    session: Annotated[str | None, typer.Option("--session", help="The session to erase.")] = None,
    person: Annotated[str | None, typer.Option("--person", help="The person to erase, by the sender's id.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only for this agent.", show_default="all agents")
    ] = None,
) -> Output:
    """Erase a person or a session.

    The messages are blanked immediately; memory providers are asked to erase their copies, however long that takes. An
    erasure cannot be undone, so the command asks for confirmation; without a terminal it requires --yes. Messages of
    other people are kept.

    \b
    Examples:
      holdfast forget --person ada
      holdfast forget --person ada --agent main --yes --json
      holdfast forget --session ses_01k...
    """
    act = "session.forgotten" if session is not None else "person.forgotten"
    async with invocation.visiting(act=act, on=session or person or "") as runtime:
        with progress("forget"):
            found = await runtime.forget(session=session, person=person, agent=agent)
        return _shown(found)


@visitor(config=True, times=True)
async def forgetting(
    runtime: Runtime,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id that `holdfast forget` printed.")],
) -> Output:
    """Show the progress of an erasure.

    The list has the receipt of each memory provider. Exit code 1 if an operator must act on a parked part.

    \b
    Examples:
      holdfast forgetting forget_01k...
    """
    return _shown(await runtime.forget_status(id))


def _shown(found: Forgetting) -> Output:
    view = forget_view(found)
    parked = any(part.state == "parked" for part in view.parts)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(view.blanked.items()) if count)
    kept = (
        f"kept: {one.what.replace('_', ' ')}{'' if one.count is None else f' ({one.count})'}: {one.why}"
        for one in view.kept
    )
    rows = (
        (
            part.provider or part.what,
            part.place,
            part.state,
            when(part.next_try_at or part.at),
            part.receipt or part.reason,
        )
        for part in view.parts
    )
    return Output(
        view,
        Heading(f"{view.forget}  {view.status}"),
        f"blanked: {counts or 'nothing, because nothing was found'}",
        *kept,
        TextTable(("where", "place", "state", "at, or next try", "receipt or reason"), rows),
        code=WRONG if parked else OK,
    )
