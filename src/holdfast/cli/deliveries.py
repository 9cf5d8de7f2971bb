"""`holdfast deliveries`, `backfill`, `rebuild`, `extractions`, `retry-extraction`: what memory receives."""

from typing import Annotated

import typer

from holdfast.api.shapes.memory import deliveries_view
from holdfast.api.shapes.monitoring import finalisation_view, finalisations_view
from holdfast.api.shapes.shapes import Delivery
from holdfast.cli.command import AfterNumber, AgentName, Limit, OnlyAgent, Runtime, visitor
from holdfast.cli.output import Output, TextTable, decision, what_delivered_means, when
from holdfast.cli.progress import progress
from holdfast.kernel.ids import SessionId
from holdfast.memory.delivery import DeliveryState
from holdfast.sessions.finalisation import FinishStep
from holdfast.sessions.finalisation_sql import list_finalisations


@visitor(times=True)
async def deliveries(
    runtime: Runtime,
    provider: Annotated[str | None, typer.Option("--provider", help="Only deliveries to this provider.")] = None,
    state: Annotated[DeliveryState | None, typer.Option("--state", help="Only deliveries in this state.")] = None,
    after: AfterNumber = 0,
    limit: Limit = 50,
) -> Output:
    """List deliveries to memory providers, newest first.

    \b
    Examples:
      holdfast deliveries
      holdfast deliveries --state parked
      holdfast deliveries --provider hindsight --state uncertain --json
    """
    wanted = state.value if state else None
    found = await runtime.deliveries(provider=provider, state=wanted, after=after, limit=limit)
    view = deliveries_view(found, limit)
    rows = ((one.id, _state(one), one.attempt, when(one.due_at), one.receipt or one.reason) for one in view.deliveries)
    headings = ("delivery", "state", "attempt", "next try", "receipt or reason")
    table = TextTable(headings, rows, "none; a configured memory provider gets one for each turn")
    return Output(view, table, *what_delivered_means(view.deliveries))


def _state(one: Delivery) -> str:
    notes = ["late" if one.late else "", decision(one.state, one.decided_by)]
    noted = "; ".join(filter(None, notes))
    return f"{one.state} ({noted})" if noted else one.state


@visitor(config=True, act="provider.backfilled", on="provider")
async def backfill(
    runtime: Runtime,
    provider: Annotated[str, typer.Argument(help="The name of the provider in holdfast.toml, such as hindsight.")],
    agent: AgentName = None,
) -> Output:
    """Deliver past conversations to a memory provider.

    Conversations from before the provider was configured are delivered, each turn once even if the command is repeated.

    \b
    Examples:
      holdfast backfill hindsight --agent main
    """
    with progress("backfill"):
        count = await runtime.backfill(provider, agent=agent)
    return Output({"units": count}, f"{count} units are queued; `holdfast deliveries` shows them.")


@visitor(config=True, act="provider.rebuilt", on="provider")
async def rebuild(
    runtime: Runtime,
    provider: Annotated[str, typer.Argument(help="The provider, which must have an index of its own.")] = "local",
    agent: AgentName = None,
) -> Output:
    """Rebuild the index of a memory provider.

    Use it if the index file was damaged or lost: the new index is built from the journal.

    \b
    Examples:
      holdfast rebuild
      holdfast rebuild local --agent bookkeeper
    """
    with progress("rebuild"):
        count = await runtime.rebuild(provider, agent=agent)
    return Output({"parcels": count}, f"{count} deliveries are in the index again.")


@visitor(times=True)
async def extractions(
    runtime: Runtime,
    state: Annotated[FinishStep | None, typer.Option("--state", help="Only extractions in this state.")] = None,
    agent: OnlyAgent = None,
    session: Annotated[str | None, typer.Option("--session", help="Only extractions of this session.")] = None,
    limit: Limit = 50,
) -> Output:
    """List memory extractions of ended sessions.

    When an epoch of a session ends, the agent extracts notes from it. The newest extraction comes first.

    \b
    Examples:
      holdfast extractions
      holdfast extractions --state failed
      holdfast extractions --session ses_01jd... --json
    """
    wanted, of = state.value if state else None, None if session is None else SessionId(session)
    found = await runtime.db.read(list_finalisations(session=of, agent=agent, state=wanted, limit=limit))
    view = finalisations_view(found)
    headings = ("extraction", "agent", "cause", "state", "attempts", "ended", "next try", "reason")
    rows = (
        (one.id, one.agent, one.cause, one.state, one.attempts, when(one.ended_at), when(one.due_at), one.reason)
        for one in view.finalisations
    )
    return Output(view, TextTable(headings, rows))


@visitor(act="finalisation.retried", on="extraction")
async def retry_extraction(
    runtime: Runtime,
    extraction: Annotated[str, typer.Argument(help="The id, as `holdfast extractions --state failed` shows it.")],
) -> Output:
    """Retry a failed memory extraction.

    If the model's answer is already stored, it is not requested again.

    \b
    Examples:
      holdfast retry-extraction finish:ses_01jd...:1
    """
    found = await runtime.retry_extraction(extraction)
    return Output(
        finalisation_view(found), f"{extraction} is {found.step.value}; a running `holdfast up` completes it."
    )
