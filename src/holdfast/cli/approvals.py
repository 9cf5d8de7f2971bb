"""`holdfast approvals`, `approve` and `deny`: tool calls that wait for a human."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Data, Json

if TYPE_CHECKING:
    from holdfast.turns.approval import Decision

LIMIT = 50
approvals_app = typer.Typer(name="approvals", invoke_without_command=True, rich_markup_mode=None)
Approval = Annotated[str, typer.Argument(help="Its id, as the chat and `holdfast approvals` show it.")]


@approvals_app.callback()
def approvals(
    context: typer.Context,
    *,
    decided: Annotated[bool, typer.Option("--all", help="Decided ones too, newest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = LIMIT,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List tool calls that wait for a human, oldest first. `holdfast approvals show ID` shows all of one.

    \b
    Examples:
      holdfast approvals
      holdfast approvals --all --json
    """
    if context.invoked_subcommand is not None:
        return
    from holdfast.cli.running import run

    run(lambda: _approvals(limit, data, decided=decided, as_json=as_json), as_json=as_json)


async def _approvals(limit: int, data: Path | None, *, decided: bool, as_json: bool) -> int:
    from holdfast.api.shapes.approvals import approvals_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK
    from holdfast.turns.call_view import shown_arguments

    async with visiting(data) as runtime:
        view = approvals_view(await runtime.approvals.list(decided=decided, limit=limit))
    if as_json:
        print_json(view)
        return OK
    rows = [
        (one.id, one.decision or "waits", one.agent, one.tool, shown_arguments(one.arguments), when(one.due_at))
        for one in view.approvals
    ]
    print_table(("approval", "state", "agent", "tool", "arguments", "until"), rows)
    return OK


@approvals_app.command()
def show(approval: Approval, *, data: Data = None, as_json: Json = False) -> None:
    """Show all of a tool call that waits for a human, or waited: what exactly will run, and its digest.

    \b
    Examples:
      holdfast approvals show K7M2QX
      holdfast approvals show K7M2QX --json
    """
    from holdfast.cli.running import run

    run(lambda: _show(approval, data, as_json=as_json), as_json=as_json)


async def _show(approval: str, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.approvals import whole_approval_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_heading, print_json, visible, when
    from holdfast.cli.running import OK
    from holdfast.kernel.ids import ApprovalId
    from holdfast.turns.call_view import short_digest

    async with visiting(data) as runtime:
        view = whole_approval_view(await runtime.approvals.find(ApprovalId(approval)))
    if as_json:
        print_json(view)
        return OK
    print_heading(f"{view.id}  {view.decision or 'waits'}")
    facts = {
        "tool": f"{view.tool} of agent {view.agent}",
        "asked by": f"{view.asked_by!r} in {view.chat}",
        "asked": when(view.asked_at),
        "until": when(view.due_at),
        "decided": f"{when(view.decided_at)} by {view.decided_by!r}" if view.decided_at else None,
        "digest": short_digest(view.digest),
        "size": f"{len(view.arguments)} characters",
    }
    print("\n".join(f"{name:<9} {visible(what)}" for name, what in facts.items() if what))
    print(f"\n{visible(view.shown)}")
    return OK


def approve(
    approval: Approval,
    digest: Annotated[
        str, typer.Argument(metavar="DIGEST", help="Of what will run, as `holdfast approvals show` shows it.")
    ] = "",
    *,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a tool call that waits run, once.

    A long call is cut in the chat and in `holdfast approvals`. It takes the digest that `holdfast approvals show` shows
    with all of it.

    \b
    Examples:
      holdfast approve K7M2QX
      holdfast approve K7M2QX 3f2a-91bc-04de
    """
    from holdfast.cli.running import run
    from holdfast.turns.approval import Decision

    run(lambda: _decide(approval, Decision.APPROVED, data, digest=digest, as_json=as_json), as_json=as_json)


def deny(
    approval: Approval,
    *,
    reason: Annotated[str, typer.Option("--reason", help="What the agent is told.")] = "",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Do not let a tool call run; the agent goes on without it.

    \b
    Examples:
      holdfast deny K7M2QX
      holdfast deny K7M2QX --reason "ask the customer first"
    """
    from holdfast.cli.running import run
    from holdfast.turns.approval import Decision

    run(lambda: _decide(approval, Decision.DENIED, data, reason=reason, as_json=as_json), as_json=as_json)


async def _decide(
    approval: str, decision: "Decision", data: Path | None, *, reason: str = "", digest: str = "", as_json: bool
) -> int:
    from holdfast.api.shapes.approvals import approval_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK, WRONG
    from holdfast.kernel.ids import ApprovalId
    from holdfast.turns.approval import Decision, already_text, decided_text

    async with visiting(data, act="approval.decided", on=approval) as runtime:
        found = await runtime.approvals.decide(
            ApprovalId(approval), decision, by="command line", reason=reason, digest=digest
        )
    is_so = found.decision is decision
    if as_json:
        print_json(approval_view(found))
    else:
        say = decided_text if is_so else already_text
        print(visible(say(found.id, found.tool, found.decision or Decision.EXPIRED)))
    return OK if is_so else WRONG
