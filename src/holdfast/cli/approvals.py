"""`holdfast approvals`, `approve` and `deny`: tool calls that wait for approval."""

from typing import Annotated

import typer

from holdfast.api.shapes.monitoring import approval_view, approvals_view, whole_approval_view
from holdfast.cli.command import Limit, Runtime, visitor
from holdfast.cli.output import OK, WRONG, Heading, Output, TextTable, facts, when
from holdfast.kernel.ids import ApprovalId
from holdfast.turns.approval import Decision, already_text, decided_text
from holdfast.turns.call_view import short_digest, shown_arguments

approvals_app = typer.Typer(name="approvals", invoke_without_command=True, rich_markup_mode=None, add_completion=False)
ApprovalArgument = Annotated[str, typer.Argument(help="The id, as the chat and `holdfast approvals` show it.")]


@approvals_app.callback()
@visitor(times=True, in_group=True)
async def approvals(
    runtime: Runtime,
    decided: Annotated[bool, typer.Option("--all", help="Include decided calls, newest first.")] = False,
    limit: Limit = 50,
) -> Output:
    """List tool calls that wait for approval.

    The oldest call comes first. `holdfast approvals show ID` shows a complete call.

    \b
    Examples:
      holdfast approvals
      holdfast approvals --all --json
    """
    view = approvals_view(await runtime.approvals.list(decided=decided, limit=limit))
    rows = (
        (one.id, one.decision or "waits", one.agent, one.tool, shown_arguments(one.arguments), when(one.due_at))
        for one in view.approvals
    )
    return Output(view, TextTable(("approval", "state", "agent", "tool", "arguments", "until"), rows))


@approvals_app.command()
@visitor(times=True)
async def show(runtime: Runtime, approval: ApprovalArgument) -> Output:
    """Show a complete tool call: exactly what will run, and its digest.

    \b
    Examples:
      holdfast approvals show K7M2QX
      holdfast approvals show K7M2QX --json
    """
    view = whole_approval_view(await runtime.approvals.find(ApprovalId(approval)))
    told = {
        "tool": f"{view.tool} of agent {view.agent}",
        "asked by": f"{view.asked_by!r} in {view.chat}",
        "asked": when(view.asked_at),
        "until": when(view.due_at),
        "decided": f"{when(view.decided_at)} by {view.decided_by!r}" if view.decided_at else None,
        "digest": short_digest(view.digest),
        "size": f"{len(view.arguments)} characters",
    }
    return Output(view, Heading(f"{view.id}  {view.decision or 'waits'}"), facts(told), f"\n{view.shown}")


@visitor(act="approval.decided", on="approval")
async def approve(
    runtime: Runtime,
    approval: ApprovalArgument,
    digest: Annotated[
        str, typer.Argument(metavar="DIGEST", help="The digest of the call, as `holdfast approvals show` shows it.")
    ] = "",
) -> Output:
    """Run a tool call that waits for approval.

    The call runs once. A long call is shortened in the chat and in `holdfast approvals`; approving it requires the
    digest that `holdfast approvals show` shows with the complete call.

    \b
    Examples:
      holdfast approve K7M2QX
      holdfast approve K7M2QX 3f2a-91bc-04de
    """
    return await _decide(runtime, approval, Decision.APPROVED, digest=digest)


@visitor(act="approval.decided", on="approval")
async def deny(
    runtime: Runtime,
    approval: ApprovalArgument,
    reason: Annotated[str, typer.Option("--reason", help="The reason to give to the agent.")] = "",
) -> Output:
    """Refuse a tool call that waits for approval.

    The agent continues without the call.

    \b
    Examples:
      holdfast deny K7M2QX
      holdfast deny K7M2QX --reason "ask the customer first"
    """
    return await _decide(runtime, approval, Decision.DENIED, reason=reason)


async def _decide(runtime: Runtime, approval: str, decision: Decision, *, reason: str = "", digest: str = "") -> Output:
    found = await runtime.approvals.decide(
        ApprovalId(approval), decision, by="command line", reason=reason, digest=digest
    )
    is_so = found.decision is decision
    say = decided_text if is_so else already_text
    text = say(found.id, found.tool, found.decision or Decision.EXPIRED)
    return Output(approval_view(found), text, code=OK if is_so else WRONG)
