"""Repairs: the plan of a replay, a resend, a drop or a settlement, of one item or of many, as a dialog.

The dialog sends the ids that it shows. What is carried out is decided again about each of them (repair/plan.py).
"""

from collections.abc import Mapping

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.kernel.errors import InvalidInput
from holdfast.repair.plan import NAMEABLE, RepairFilter, RepairPlan, RepairSubject, RepairVerb

SHOWN_MAX = 10  # items that a dialog lists
BULK_MAX = 500  # items that one dialog repairs; the next one goes on
TEXT = {"type": "string", "maxLength": 500}
QUERY = {
    "id": Param("only this item", TEXT, default=""),
    "agent": Param("only this agent's", TEXT, default=""),
    "name": Param("only of this provider or channel", TEXT, default=""),
    "state": Param("only in this state", TEXT, default=""),
}
TITLES: Mapping[tuple[RepairVerb, RepairSubject], tuple[str, str]] = {
    (RepairVerb.REPLAY, RepairSubject.DELIVERY): ("Replay parked deliveries", "Replay"),
    (RepairVerb.RESEND, RepairSubject.REPLY): ("Resend replies", "Resend"),
    (RepairVerb.DROP, RepairSubject.DELIVERY): ("Give up deliveries", "Give up"),
    (RepairVerb.DROP, RepairSubject.REPLY): ("Give up replies", "Give up"),
    (RepairVerb.DROP, RepairSubject.MESSAGE): ("Give up waiting messages", "Give up"),
    (RepairVerb.SETTLE, RepairSubject.DELIVERY): ("Settle as arrived", "Settle"),
    (RepairVerb.SETTLE, RepairSubject.REPLY): ("Settle as arrived", "Settle"),
}


@page("/console/repair/{verb}/{subject}", query=QUERY)
async def get_repair(asked: Asked) -> PageView:
    """What a repair would do."""
    params = asked.call.request.path_params
    found = [
        (verb, subject)
        for verb, subject in NAMEABLE
        if (verb.value, subject.value) == (params["verb"], params["subject"])
    ]
    if not found:
        raise InvalidInput(f"{params['verb'][:40]} does not apply to {params['subject'][:40]}")
    verb, subject = found[0]
    wanted = asked.query
    ids = (wanted["id"],) if wanted["id"] else ()
    chosen = RepairFilter(ids=ids, agent=wanted["agent"], name=wanted["name"], state=wanted["state"])
    plan = await asked.runtime.repairs.plan(verb, subject, chosen, limit=BULK_MAX)
    title, word = TITLES[verb, subject]
    return PageView(
        "repair.html",
        title,
        {
            "plan": plan,
            "heading": title,
            "word": word,
            "counted": counted(plan),
            "target": f"/v1/{subject.plural}/{verb.value}",
            "body": {"ids": [one.item.id for one in plan.possible]},
            "shown_max": SHOWN_MAX,
        },
    )


def counted(plan: RepairPlan) -> str:
    """`1 delivery`, `12 replies`."""
    count = len(plan.possible)
    return f"{count} {plan.subject.value if count == 1 else plan.subject.plural}"
