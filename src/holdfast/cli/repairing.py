"""`holdfast replay`, `resend`, `drop`, `settle`: repairs of one or many items, each with its dry run.

A command shows what it would do, asks once, and does it in batches; a repeated command finds what is left. One id that
can be replayed or resent is not asked about: the other commands reverse it.
"""

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.api.shapes.memory import Replayed
from holdfast.api.shapes.monitoring import reply_view
from holdfast.api.shapes.repair import LIMIT_MAX, RepairWish, check_wish, done_view, filter_of, plan_view
from holdfast.audit.action import Act
from holdfast.cli.command import Invocation, Runtime, command, confirm
from holdfast.cli.output import OK, WRONG, Heading, Output, Part, TextTable, when
from holdfast.cli.progress import progress
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import DeliveryId, ReplyId
from holdfast.repair.plan import PlannedItem, Repaired, RepairPlan, RepairSubject, RepairVerb, subject_of

SHOWN_MAX = 20  # items of a plan in text; `--json` has all
UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DELIVERY, REPLY, MESSAGE = RepairSubject.DELIVERY, RepairSubject.REPLY, RepairSubject.MESSAGE
ACTS = {
    (RepairVerb.REPLAY, DELIVERY): Act.DELIVERY_REPLAYED,
    (RepairVerb.RESEND, REPLY): Act.REPLY_RESENT,
    (RepairVerb.DROP, DELIVERY): Act.DELIVERY_DROPPED,
    (RepairVerb.DROP, REPLY): Act.REPLY_DROPPED,
    (RepairVerb.DROP, MESSAGE): Act.MESSAGE_DROPPED,
    (RepairVerb.SETTLE, DELIVERY): Act.DELIVERY_SETTLED,
    (RepairVerb.SETTLE, REPLY): Act.REPLY_SETTLED,
}
DONE = {
    RepairVerb.REPLAY: "put back; a running `holdfast up` delivers them",
    RepairVerb.RESEND: "queued; a running `holdfast up` sends them",
    RepairVerb.DROP: "given up",
    RepairVerb.SETTLE: "settled as arrived",
}

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The ids; without ids, name a filter.")]
Agent = Annotated[str, typer.Option("--agent", help="Only of this agent.")]
Provider = Annotated[str, typer.Option("--provider", help="Only deliveries to this provider.")]
Channel = Annotated[str, typer.Option("--channel", help="Only replies or messages of this channel.")]
State = Annotated[str, typer.Option("--state", help="Only in this state.")]
Reason = Annotated[str, typer.Option("--reason", help="Only with this text or code in the reason.")]
Older = Annotated[str, typer.Option("--older-than", help="Only what is in its state for longer: 30m, 12h, 7d.")]
All = Annotated[bool, typer.Option("--all", help="Everything that the command takes.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="The maximum number of items.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")]
SkipQuestion = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@command(times=True)
async def replay(
    invocation: Invocation,
    ids: Ids = None,
    *,
    agent: Agent = "",
    provider: Provider = "",
    reason: Reason = "",
    older_than: Older = "",
    all: All = False,
    limit: Most = LIMIT_MAX,
    dry_run: DryRun = False,
    yes: SkipQuestion = False,
) -> Output:
    """Retry parked deliveries.

    A delivery is marked as late. If it may have arrived, the provider is asked before it is sent again.

    \b
    Examples:
      holdfast replay hindsight:ses_01jd...:7
      holdfast replay --provider hindsight --dry-run
      holdfast replay --reason 413 --older-than 1h --yes
    """
    wish = RepairWish(
        ids=list(ids or ()),
        agent=agent,
        name=provider,
        reason=reason,
        older_than_s=_seconds(older_than),
        all=all,
        limit=limit,
        dry_run=dry_run,
    )
    check_wish(wish)
    if len(wish.ids) == 1 and not dry_run:
        (delivery,) = wish.ids
        async with invocation.visiting(act=Act.DELIVERY_REPLAYED.stored, on=delivery) as runtime:
            state = await runtime.replay(DeliveryId(delivery))
        text = f"{delivery} is {state}; a running `holdfast up` delivers it."
        return Output(Replayed(delivery=delivery, state=state), text)
    return await _repair(invocation, RepairVerb.REPLAY, DELIVERY, wish, yes=yes)


@command(times=True)
async def resend(
    invocation: Invocation,
    ids: Ids = None,
    *,
    agent: Agent = "",
    channel: Channel = "",
    state: State = "",
    reason: Reason = "",
    older_than: Older = "",
    all: All = False,
    limit: Most = LIMIT_MAX,
    dry_run: DryRun = False,
    yes: SkipQuestion = False,
) -> Output:
    """Send uncertain or failed replies again.

    If the platform already has an uncertain reply, it appears in the chat twice.

    \b
    Examples:
      holdfast resend rep_01jd...
      holdfast resend --channel telegram --state failed --dry-run
    """
    wish = RepairWish(
        ids=list(ids or ()),
        agent=agent,
        name=channel,
        state=state,
        reason=reason,
        older_than_s=_seconds(older_than),
        all=all,
        limit=limit,
        dry_run=dry_run,
    )
    check_wish(wish)
    if len(wish.ids) == 1 and not dry_run:
        (reply,) = wish.ids
        async with invocation.visiting(act=Act.REPLY_RESENT.stored, on=reply) as runtime:
            found = await runtime.resend(ReplyId(reply))
        return Output(reply_view(found), f"{reply} is {found.state}; a running `holdfast up` sends it.")
    return await _repair(invocation, RepairVerb.RESEND, REPLY, wish, yes=yes)


@command(times=True)
async def drop(
    invocation: Invocation,
    ids: Ids = None,
    *,
    what: Annotated[RepairSubject | None, typer.Option("--what", help="Without ids: what the filter is about.")] = None,
    agent: Agent = "",
    provider: Provider = "",
    channel: Channel = "",
    state: State = "",
    reason: Reason = "",
    older_than: Older = "",
    all: All = False,
    limit: Most = LIMIT_MAX,
    dry_run: DryRun = False,
    yes: SkipQuestion = False,
) -> Output:
    """Give up deliveries, replies or waiting messages.

    A delivery or reply that holds up others lets them go on, and is no longer listed as undecided. It says who gave it
    up; `holdfast replay` and `holdfast resend` reverse it. A waiting message is interrupted and its sender is told:
    nothing reverses that.

    Filters take parked deliveries, uncertain and failed replies, or waiting messages; --state names what still goes on:
    scheduled or uncertain deliveries, pending replies.

    \b
    Examples:
      holdfast drop hindsight:ses_01jd...:7 --dry-run
      holdfast drop --what delivery --provider honcho --reason 413
      holdfast drop --what reply --channel telegram --older-than 7d --yes
      holdfast drop msg_01jd...
    """
    wish = RepairWish(
        ids=list(ids or ()),
        agent=agent,
        name=provider or channel,
        state=state,
        reason=reason,
        older_than_s=_seconds(older_than),
        all=all,
        limit=limit,
        dry_run=dry_run,
    )
    check_wish(wish)
    return await _repair(invocation, RepairVerb.DROP, _subject(wish.ids, what, provider, channel), wish, yes=yes)


@command(times=True)
async def settle(
    invocation: Invocation,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The ids of deliveries, or of replies.")],
    *,
    arrived: Annotated[bool, typer.Option("--arrived", help="You have seen that it arrived.")] = False,
    dry_run: DryRun = False,
    yes: SkipQuestion = False,
) -> Output:
    """Say that a delivery or a reply in doubt did arrive.

    It is settled by your word, which its record names: `said to have arrived by ...`. The items behind it go on. Only
    what is uncertain, or was parked in doubt, can be settled, and an erasure that you did at the provider by hand.

    \b
    Examples:
      holdfast settle rep_01jd... --arrived
      holdfast settle hindsight:ses_01jd...:7 --arrived --dry-run
    """
    if not arrived:
        raise InvalidInput("say how it ended: --arrived; to send it again use replay or resend, to give it up drop")
    wish = RepairWish(ids=ids, dry_run=dry_run)
    return await _repair(invocation, RepairVerb.SETTLE, _subject(ids, None, "", ""), wish, yes=yes)


async def _repair(
    invocation: Invocation, verb: RepairVerb, subject: RepairSubject, wish: RepairWish, *, yes: bool
) -> Output:
    if (verb, subject) not in ACTS:
        raise InvalidInput(f"{verb.value} does not apply to {subject.plural}")
    on = wish.ids[0] if wish.ids else subject.plural
    async with invocation.visiting(act=ACTS[verb, subject].stored, on=on) as runtime:
        plan = await runtime.repairs.plan(verb, subject, filter_of(wish), limit=wish.limit)
        if wish.dry_run:
            return Output(plan_view(plan), *_plan_text(plan), code=WRONG if plan.unknown else OK)
        if not plan.possible:
            return Output(done_view(plan, ()), *_plan_text(plan), code=WRONG if plan.items or plan.unknown else OK)
        if not yes:
            if not invocation.as_json:
                Output(None, *_plan_text(plan)).print(as_json=False)
            if not confirm(f"{_title(plan)} Go on?"):
                return Output(plan_view(plan), "Nothing was changed.", code=WRONG)
        done = await _carried_out(runtime, plan)
    left = [*plan.left, *_changed(plan, done)]
    text: list[Part] = [f"{_count(plan, len(done) - len(_changed(plan, done)))} {DONE[verb]}."]
    text += _left_text(plan, left)
    return Output(done_view(plan, done), *text, code=WRONG if left or plan.unknown else OK)


async def _carried_out(runtime: Runtime, plan: RepairPlan) -> Sequence[Repaired]:
    with progress(plan.verb.value, len(plan.possible)) as advance:
        return await runtime.repairs.carry_out(plan, advance)


def _changed(plan: RepairPlan, done: Sequence[Repaired]) -> list[PlannedItem]:
    """What could not be done because it changed after it was planned."""
    obstacles = {one.id: one.obstacle for one in done if one.obstacle}
    return [
        PlannedItem(item=one.item, obstacle=obstacles[one.item.id]) for one in plan.possible if one.item.id in obstacles
    ]


# --- text --------------------------------------------------------------------------------------------


def _count(plan: RepairPlan, count: int) -> str:
    return f"{count} {plan.subject.value if count == 1 else plan.subject.plural}"


def _title(plan: RepairPlan) -> str:
    effects = "; ".join(f"{count} {effect}" for effect, count in sorted(plan.effects.items()))
    return f"{_count(plan, len(plan.possible))} would be changed ({effects})."


def _plan_text(plan: RepairPlan) -> list[Part]:
    text: list[Part] = []
    if plan.possible:
        text.append(Heading(_title(plan)))
        text.append(TextTable(("id", "agent", "at", "state", "since", "what would happen"), _rows(plan.possible)))
        text += _more(plan.possible)
    elif not plan.left and not plan.unknown:
        text.append(f"none: no {plan.subject.plural} match")
    return [*text, *_left_text(plan, plan.left)]


def _left_text(plan: RepairPlan, left: Sequence[PlannedItem]) -> list[Part]:
    text: list[Part] = []
    if left:
        text.append(Heading(f"{_count(plan, len(left))} stay as they are:" if len(left) > 1 else "1 stays as it is:"))
        text.append(TextTable(("id", "agent", "at", "state", "since", "why"), _rows(left)))
        text += _more(left)
    text += [f"unknown: {ident}" for ident in plan.unknown]
    if plan.is_cut:
        text.append("More match; repeat the command for the rest.")
    return text


def _rows(items: Sequence[PlannedItem]) -> list[tuple[object, ...]]:
    return [
        (one.item.id, one.item.agent, one.item.name, one.item.state, when(one.item.since), one.effect or one.obstacle)
        for one in items[:SHOWN_MAX]
    ]


def _more(items: Sequence[PlannedItem]) -> list[Part]:
    return [f"... and {len(items) - SHOWN_MAX} more; --json lists all"] if len(items) > SHOWN_MAX else []


# --- options -----------------------------------------------------------------------------------------


def _subject(ids: Sequence[str], what: RepairSubject | None, provider: str, channel: str) -> RepairSubject:
    """What a request is about: the ids say it, or the option, or the filter. Raises `InvalidInput`."""
    named = {subject_of(one) for one in ids}
    named |= {what} if what is not None else set()
    if not named:
        named = ({DELIVERY} if provider else set()) | ({REPLY} if channel else set())
    if len(named) != 1:
        raise InvalidInput("name one kind: ids of one kind, or --what delivery, reply or message")
    return named.pop()


def _seconds(text: str) -> int:
    """Raises `InvalidInput`."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text) if text else None
    if text and found is None:
        raise InvalidInput(f"--older-than {text[:40]!r}: use 30m, 12h or 7d", older_than=text[:40])
    return int(found[1]) * UNITS_S[found[2]] if found else 0
