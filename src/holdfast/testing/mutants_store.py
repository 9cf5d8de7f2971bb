"""Guarantees of expiry, pruning, backfill, rebuilding and spending, broken on purpose, and one of a loop whose store
fails. Each is detected in random histories that have the area."""

from collections.abc import AsyncIterator, Sequence

from holdfast.kernel.ids import AgentName, NodeId, SessionId
from holdfast.memory import forget_sql, reindex, replay_sql
from holdfast.memory.cursor_sql import pending_turns
from holdfast.memory.delivery import DeliveryPolicy, Parcel, TurnSpan
from holdfast.memory.lane import LaneKey
from holdfast.memory.replay_sql import list_delivered_parcels
from holdfast.sessions import finalisation_sql
from holdfast.sessions.finalisation import Ending, Finalisation, NotEnded
from holdfast.sessions.finalisation_sql import LiveMailbox
from holdfast.store import upkeep_sql
from holdfast.store.ports import Database
from holdfast.store.script import Script, run
from holdfast.testing.areas import Area
from holdfast.testing.mutant import Patch, mutant
from holdfast.turns import spend_sql
from holdfast.turns.model_call import Metered

BUDGET = 30
FIRST_PAGE = 1


# --- expiry --------------------------------------------------------------------------------------------------------


@mutant("I9", budget=150, area=Area.EXPIRY, first=251)
def expiry_closes_over_mail() -> Sequence[Patch]:
    """A message accepted before the session was closed does not reopen it."""
    honest = finalisation_sql._leave_session  # noqa: SLF001

    def broken(held: Finalisation, live: LiveMailbox | None) -> Script[None]:
        yield from honest(held, live._replace(owner=None, depth=0) if live else None)

    return [(finalisation_sql, "_leave_session", broken)]


@mutant("I8", budget=BUDGET, area=Area.EXPIRY, short=64)
def expiry_closes_what_went_on() -> Sequence[Patch]:
    """A session that is used again while its epoch is extracted is closed nevertheless."""

    def broken(held: Finalisation, live: LiveMailbox | None) -> Script[None]:
        yield from run(finalisation_sql.CLOSE, session=held.session, cause=held.cause)
        if live is not None:
            yield from run(finalisation_sql.LEAVE, mailbox=live.id)

    return [(finalisation_sql, "_leave_session", broken)]


@mutant("I8", "I9", "I15", "surprise", budget=BUDGET, area=Area.EXPIRY, first=246)
def expiry_ends_what_is_used() -> Sequence[Patch]:
    """An epoch is ended although the session is in use."""

    def broken(_ending: Ending, _live: object, _found: object, *, moved: bool) -> NotEnded | None:
        return NotEnded("moved") if moved else None

    widened = finalisation_sql.EXPIRED.replace(
        "and idle_from <= :before and active_at <= :before and open_turn is null", "and active_at > -:before"
    )
    alone = widened.replace("(mailbox.owner is not null or mailbox.depth > 0)", "false")
    return [(finalisation_sql, "_refusal", broken), (finalisation_sql, "EXPIRED", alone)]


@mutant("I8", budget=BUDGET, area=Area.EXPIRY, short=64)
def expiry_freezes_twice() -> Sequence[Patch]:
    """The frozen range of an earlier epoch is extracted again at the next end."""
    again = finalisation_sql.END_EPOCH.replace("step <> 'cancelled'", "step = 'nothing'")
    return [(finalisation_sql, "END_EPOCH", again)]


# --- pruning -------------------------------------------------------------------------------------------------------


@mutant("I1", "I2", budget=BUDGET, area=Area.PRUNING, short=24)
def pruning_forgets_identities() -> Sequence[Patch]:
    """A pruned message leaves no tombstone, so a late redelivery is another message."""
    nothing = "select :hash, :body_hash, :message, :state, :principal, :agent"
    return [(upkeep_sql, "BURY", nothing)]


@mutant("I1", "I2", "I15", "surprise", budget=BUDGET, area=Area.PRUNING, short=24)
def pruning_takes_open_messages() -> Sequence[Patch]:
    """Waiting messages and messages in a turn are pruned too."""
    return [(upkeep_sql, "OLD", upkeep_sql.OLD.replace("state not in ('waiting', 'in_turn') and ", ""))]


# --- backfill and rebuilding ---------------------------------------------------------------------------------------


@mutant("I11", budget=BUDGET, area=Area.BACKFILL, short=7)
def backfill_loses_the_first_turn() -> Sequence[Patch]:
    """The oldest turn of a session is left out."""
    honest = pending_turns

    def broken(session: SessionId, policy: DeliveryPolicy, scheduled: int) -> Script[list[TurnSpan]]:
        return (yield from honest(session, policy, scheduled))[1:]

    return [(replay_sql, "pending_turns", broken)]


@mutant("I11", budget=80, area=Area.BACKFILL, first=558)
def backfill_looks_at_open_sessions_only() -> Sequence[Patch]:
    """Sessions that are no longer live when the provider is added are not backfilled."""
    return [(replay_sql, "WITHOUT_CURSOR", replay_sql.WITHOUT_CURSOR.replace("<> 'deleted'", "= 'open'"))]


@mutant("I7", budget=BUDGET, area=Area.REBUILD, short=20)
def rebuilding_stops_after_a_page() -> Sequence[Patch]:
    """Only the first page of a lost index is rebuilt."""

    async def broken(db: Database, key: LaneKey) -> AsyncIterator[Parcel]:
        for _, parcel in await db.read(list_delivered_parcels(key, after=0, limit=FIRST_PAGE)):
            yield parcel

    return [(reindex, "_delivered", broken)]


@mutant("I7", budget=BUDGET, area=Area.REBUILD, short=20)
def rebuilding_turns_the_order_round() -> Sequence[Patch]:
    """An index is rebuilt from the newest to the oldest."""
    return [(replay_sql, "DELIVERED", replay_sql.DELIVERED.replace("order by delivery.n", "order by delivery.n desc"))]


# --- spending ------------------------------------------------------------------------------------------------------


@mutant("I20", budget=BUDGET, area=Area.SPENDING, short=62)
def spending_has_no_limit() -> Sequence[Patch]:
    """The amount spent is not read before a model is asked."""

    async def broken(_metered: Metered) -> None:
        """Skip the check of the limit."""

    return [(Metered, "_check", broken)]


@mutant("I20", budget=BUDGET, area=Area.SPENDING, short=37)
def spending_counts_replies_only() -> Sequence[Patch]:
    """Summaries and extractions cost nothing towards the limit."""
    return [(spend_sql, "SPENT", f"{spend_sql.SPENT} and task = 'reply'")]


@mutant("I20", budget=BUDGET, area=Area.SPENDING, short=62)
def spending_is_written_down_twice() -> Sequence[Patch]:
    """An answer is paid for under two ids."""
    twice = spend_sql.NEW_SPEND.replace(
        "values (:id, :agent, :now, :task, :model, :tokens_in, :tokens_out, :cost_micros)",
        "values (:id, :agent, :now, :task, :model, :tokens_in, :tokens_out, :cost_micros), "
        "(:id || 'b', :agent, :now, :task, :model, :tokens_in, :tokens_out, :cost_micros)",
    )
    return [(spend_sql, "NEW_SPEND", twice)]


# --- forgetting, and loops whose store fails -----------------------------------------------------------------------


@mutant("I16", budget=BUDGET, area=Area.FORGETTING, short=81)
def forgetting_reaches_one_agent() -> Sequence[Patch]:
    """A person is forgotten by the first agent only."""
    honest = forget_sql._agents  # noqa: SLF001

    def broken() -> Script[list[AgentName]]:
        return (yield from honest())[:1]

    return [(forget_sql, "_agents", broken)]


@mutant("I15", budget=80, short=40199)
def finishing_claims_have_no_name() -> Sequence[Patch]:
    """A finalisation whose claim was not answered stays claimed for as long as its node lives."""
    honest = finalisation_sql.claim_finalisation.script

    def broken(node: NodeId, *, name: str = "") -> Script[Finalisation | None]:
        del name
        return (yield from honest(node))

    return [(finalisation_sql, "claim_finalisation", broken)]
