"""`holdfast extractions` and `retry-extraction`: epochs that ended, and the memory extracted from them."""

from typing import Annotated

import typer

from holdfast.api.shapes.finalisations import finalisation_view, finalisations_view
from holdfast.cli.command import Runtime, visitor
from holdfast.cli.options import Limit, OnlyAgent
from holdfast.cli.output import Output, TextTable, when
from holdfast.kernel.ids import SessionId
from holdfast.sessions.finalisation import FinishStep
from holdfast.sessions.finalisation_sql import list_finalisations


@visitor()
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
