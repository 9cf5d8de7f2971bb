"""Guarantees of forgetting, broken on purpose. They are detected in histories in which a person is forgotten."""

from collections.abc import Sequence

from holdfast.kernel.ids import SessionId
from holdfast.memory import forget_person_sql, forget_sql, provenance_sql, quotation_sql
from holdfast.memory.delivery import DeliveryState, Op
from holdfast.memory.delivery_call import ProviderDelivery
from holdfast.memory.forget import Forgetting
from holdfast.memory.lane import Package, Settlement
from holdfast.memory.provenance_sql import AgentMessage, Trail
from holdfast.store.script import Script, rows, run
from holdfast.testing import inline_database
from holdfast.testing.mutant import RARE_BUDGET, Patch, mutant
from holdfast.turns import context_sql, turn_sql
from holdfast.turns.context import Context
from holdfast.turns.journal import AnyBody

BUDGET = 10


@mutant("I16", budget=BUDGET, forgets=True, short=3)
def forget_keeps_provider_words() -> Sequence[Patch]:
    """An erasure is settled as delivered without being sent."""
    honest = ProviderDelivery._idle  # noqa: SLF001

    def broken(carrier: ProviderDelivery, package: Package) -> Settlement | None:
        if package.parcel.op is Op.ERASE:
            return Settlement(n=package.n, state=DeliveryState.DELIVERED, receipt="surely")
        return honest(carrier, package)

    return [(ProviderDelivery, "_idle", broken)]


@mutant("I16", budget=BUDGET, forgets=True, short=3)
def forget_schedules_no_erasure() -> Sequence[Patch]:
    """Words at providers are not erased."""

    def broken(*_: object) -> Script[None]:
        yield from ()

    return [(forget_sql, "_erase", broken)]


@mutant("I16", budget=BUDGET, forgets=True, short=4)
def forget_skips_summaries() -> Sequence[Patch]:
    """Summaries of the words stay."""
    return [(forget_person_sql, "BLANK_SUMMARIES", "select 1 where :session = :first and length(:blank) > 0")]


@mutant("I16", budget=60, forgets=True, first=48)
def forget_lets_models_finish() -> Sequence[Patch]:
    """A summary of the words that is in progress is committed."""
    return [(forget_person_sql, "VOID_CONTEXTS", "select 1 where :session = :first")]


@mutant("I16", budget=40, forgets=True, short=5)
def forget_lets_turns_run() -> Sequence[Patch]:
    """An open turn of the person continues, and its answer is journaled."""

    def broken(*_: object) -> Script[None]:
        yield from ()

    return [(forget_person_sql, "halt_turn", broken), (forget_person_sql, "void_claim", broken)]


@mutant("I16", budget=BUDGET, forgets=True, short=3)
def forget_leaves_the_log() -> Sequence[Patch]:
    """Words are blanked in rows, and their bytes stay in the files."""
    return [(inline_database, "scrub", lambda _db: "surely")]


@mutant("I16", budget=BUDGET, forgets=True, short=3)
def forget_sweeps_nothing() -> Sequence[Patch]:
    """Recollections made before a provider had erased stay in the journal."""

    def broken(quiet_ms: int, limit: int) -> Script[int]:
        found = yield from rows(forget_sql.SETTLED, quiet_ms=quiet_ms, limit=limit)
        for id_, _ in found:
            yield from run(forget_sql.SWEPT, id=id_, found=0)
        return len(found)

    return [(forget_sql, "sweep_forgotten", broken), (turn_sql, "_without_forgotten", _as_it_is)]


def _as_it_is(_claim: object, bodies: Sequence[AnyBody]) -> Script[Sequence[AnyBody]]:
    yield from ()
    return bodies


@mutant("I16", budget=40, forgets=True, short=63)
def forget_shows_what_is_not_erased() -> Sequence[Patch]:
    """Recollections of a provider that has not erased yet are shown, and repeated in an answer that stays."""
    return [(turn_sql, "_without_forgotten", _as_it_is)]


@mutant("I16", budget=BUDGET, forgets=True, short=3)
def forget_takes_whole_sessions() -> Sequence[Patch]:
    """Every entry of the person's sessions is deleted, including the words of others."""

    honest = provenance_sql._scan  # noqa: SLF001

    def broken(trail: Trail, session: SessionId, agent: str) -> Script[set[SessionId]]:
        reached = yield from honest(trail, session, agent)
        every = yield from rows("select seq from entry where session = :session and kind <> 'undo'", session=session)
        trail.sessions[session].seqs.update(seq for (seq,) in every)
        return reached

    return [(provenance_sql, "_scan", broken)]


@mutant("I16", budget=BUDGET, forgets=True, short=3)
def forget_is_done_too_early() -> Sequence[Patch]:
    """The request is reported as done although a provider has not erased."""
    return [(Forgetting, "done", property(lambda found: found.scrubbed_at is not None))]


@mutant("I16", budget=40, forgets=True, short=63)
def forget_follows_no_message() -> Sequence[Patch]:
    """Words that an agent passed on to another agent stay there, and are repeated."""

    def broken(_trail: Trail, _letter: AgentMessage) -> Script[set[SessionId]]:
        yield from ()
        return set()

    return [(provenance_sql, "_arrived", broken)]


@mutant("I16", budget=40, forgets=True, first=4)
def forget_keeps_quotations() -> Sequence[Patch]:
    """An answer to another person that repeats the words stays."""

    def broken(_search: object, *_: object) -> Script[None]:
        yield from ()

    return [(quotation_sql, "_scan", broken)]


@mutant(
    "I16",
    budget=RARE_BUDGET,
    forgets=True,
    rare="tests/memory/test_quotation_sql.py"
    "::test_providers_erase_every_turn_of_a_deleted_session_since_the_person_spoke",
)
def forget_keeps_what_was_deleted() -> Sequence[Patch]:
    """Answers of a session that was deleted before stay at the providers, although they can no longer be compared."""

    def broken(_trail: provenance_sql.Trail) -> Script[None]:
        yield from ()

    return [(forget_sql, "find_unreadable", broken)]


@mutant(
    "I16",
    budget=RARE_BUDGET,
    forgets=True,
    rare="tests/memory/test_forget_sql.py::test_a_process_that_read_a_recall_of_the_words_does_not_show_it_again",
)
def forget_leaves_contexts_in_memory() -> Sequence[Patch]:
    """Another process continues with the context and the recollections that it read before."""

    def broken(known: Context, now: Context) -> bool:
        before = known.undo_count, known.summaries
        return before == (now.undo_count, now.summaries) and known.last_seq <= now.last_seq

    return [(context_sql, "_grown_only", broken)]


@mutant("I16", budget=BUDGET, forgets=True, short=3)
def forget_keeps_hashes() -> Sequence[Patch]:
    """The hash of a forgotten text stays in its row."""
    kept = forget_person_sql.BLANK_INBOUND.replace("body_hash = :blank", "body_hash = body_hash")
    return [(forget_person_sql, "BLANK_INBOUND", kept)]
