"""Approvals: tool calls that wait for a person, with all of their arguments, and what was decided.

A call that cannot be taken back has no main button: a person who presses the nearest button denies nothing and approves
nothing by habit.
"""

from holdfast.api.auth.access_token import Scope
from holdfast.console.page import Asked, PageView, page
from holdfast.kernel.ids import ApprovalId
from holdfast.monitor.durations import duration
from holdfast.monitor.status import plural
from holdfast.turns.approval import ApprovalView, typed_id
from holdfast.turns.approval_view_sql import find_approval, list_approvals
from holdfast.turns.call_view import full_arguments

OPEN_MAX, DECIDED_MAX = 50, 50


@page("/console/approvals")
async def get_approvals(asked: Asked) -> PageView:
    """Tool calls that wait for a person."""
    waiting = sorted(await asked.read(list_approvals(limit=OPEN_MAX)), key=lambda one: (one.due_at, one.id))
    newest = await asked.read(list_approvals(decided=True, limit=DECIDED_MAX))
    longest = max((asked.status.at - one.asked_at for one in waiting), default=0)
    return PageView(
        "approvals.html",
        "Approvals",
        {
            "first": [
                ("hot", plural(len(waiting), "waits for you", "wait for you")),
                ("quiet", f"longest {duration(longest)}"),
            ]
            if waiting
            else [("", "Nothing waits for you")],
            "waiting": [(one, _shown(one), is_repeatable(asked, one)) for one in waiting],
            "decided": [one for one in newest if one.decision is not None],
            "may_decide": asked.may(Scope.OPERATE),
        },
    )


@page("/console/approvals/{approval}/approve")
async def get_approve(asked: Asked) -> PageView:
    """What approving a call would do."""
    one = await asked.read(find_approval(typed_id(ApprovalId(asked.call.id("approval")))))
    return PageView(
        "approve.html",
        f"Approve {one.tool}",
        {"one": one, "shown": _shown(one), "is_repeatable": is_repeatable(asked, one)},
    )


def _shown(one: ApprovalView) -> str:
    return full_arguments(one.arguments) if one.arguments else ""


def is_repeatable(asked: Asked, one: ApprovalView) -> bool:
    """Whether a second call of the tool does no harm, as its author said. An unknown tool may do harm."""
    return asked.runtime.is_repeatable(one.agent, one.tool)
