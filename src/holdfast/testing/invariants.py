"""The invariants of a history (I1..I36), as pure functions of its evidence.

Each checker reads `Evidence` and yields a sentence per contradiction. The evidence was gathered outside the
runtime: rows read by another connection, acknowledgements seen by the platform, requests seen by the model, effects
seen by tools. A checker uses no SQL and no event loop, so it can be tested with handmade evidence.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from holdfast.testing.checks_actions import acts_are_on_record_once, trail_is_whole
from holdfast.testing.checks_agents import (
    chains_limit_tools,
    circles_come_to_an_end,
    hops_are_counted,
    letters_arrive_once,
    letters_go_to_those_listed,
)
from holdfast.testing.checks_contexts import (
    contexts_are_whole,
    notes_are_the_agents,
    only_the_operator_speaks_as_system,
    summaries_are_whole,
    trimming_has_a_cause,
)
from holdfast.testing.checks_delivery import (
    effects_are_what_was_said,
    effects_follow_the_journal,
    effects_happen_at_the_providers_once,
    lanes_are_fenced,
    lost_indexes_are_filled_again,
    marks_are_true,
    providers_hold_what_counts,
    speakers_stay_the_same,
)
from holdfast.testing.checks_drafts import drafts_are_on_record_first, drafts_give_way
from holdfast.testing.checks_finish import epochs_end_once, epochs_follow_each_other, models_are_asked_once
from holdfast.testing.checks_identity import links_are_as_asked_for, recalls_end_with_the_link
from holdfast.testing.checks_pauses import paused_agents_begin_no_turn
from holdfast.testing.checks_recall import (
    lookups_say_who_reads,
    recalls_belong_to_their_turn,
    recalls_stay_where_they_are,
)
from holdfast.testing.checks_replies import (
    posts_are_what_was_said,
    replies_are_posted_once,
    replies_come_to_an_end,
    replies_keep_their_order,
    resends_send_once_more,
)
from holdfast.testing.checks_rights import (
    calls_are_decided_by_those_who_may,
    sessions_are_changed_by_those_who_may,
    turns_are_stopped_by_those_who_may,
    turns_are_undone_by_those_who_may,
)
from holdfast.testing.checks_sessions import sessions_switch_by_command_only
from holdfast.testing.checks_spend import answers_are_paid_once, spending_stops_at_the_limit
from holdfast.testing.checks_stream_platform import (
    attachments_can_be_read,
    everything_said_was_read,
    marks_follow_what_was_taken,
    moved_chats_go_on,
)
from holdfast.testing.checks_visibility import (
    contexts_are_for_their_readers,
    looks_are_for_whom_they_are,
    notes_are_kept_apart,
    places_are_kept_apart,
)
from holdfast.testing.checks_work import (
    cursor_work_exists,
    decisions_stand,
    effects_happen_once,
    humans_said_yes,
    recorded_once,
    replies_are_single,
    what_was_approved_runs,
)
from holdfast.testing.evidence import IN_TURN, TERMINAL, Evidence, Found
from holdfast.testing.platform import SentMessage
from holdfast.testing.report import Violation
from holdfast.testing.rows import Row, Rows, body_of
from holdfast.turns.journal import Observed, UserSaid

Check: TypeAlias = tuple[str, Callable[[Evidence], Found]]


def judge(evidence: Evidence, checks: Sequence[Check] | None = None) -> list[Violation]:
    chosen = CHECKS if checks is None else checks
    return [Violation(name, what) for name, check in chosen for what in _found(check, evidence)]


def _found(check: Callable[[Evidence], Found], evidence: Evidence) -> Found:
    try:
        yield from check(evidence)
    except Exception as error:  # noqa: BLE001 - rows so wrong that they cannot be read break the invariant too
        yield f"{check.__name__} cannot judge: {error!r}"


# --- I1, I2: acknowledged messages ---------------------------------------------------------------------------------


def acknowledged_is_kept(evidence: Evidence) -> Found:
    """I1: each acknowledged message has exactly one row, and a state that is final."""
    rows = evidence.rows.by("inbound", "event_id")
    for sent in evidence.sent:
        kept = rows.get(sent.say.event_id, [])
        if sent.acked_at is None or len(kept) != 1:
            yield f"{sent.say.event_id} was acknowledged at {sent.acked_at} and has {len(kept)} rows"
            continue
        if kept[0]["state"] not in TERMINAL:
            yield f"{sent.say.event_id} is {kept[0]['state']} at rest"
        if kept[0]["state"] == "refused" and not kept[0]["reason"]:
            yield f"{sent.say.event_id} is refused without a reason"
        if sent.message and kept[0]["message"] != sent.message:
            yield f"{sent.say.event_id} was acknowledged as {sent.message} and kept as {kept[0]['message']}"
        if sent.taken_for_its_own and kept[0]["body_hash"]:
            yield f"{sent.say.event_id}: another text under its id was taken for its own"
        yield from (f"{sent.say.event_id}: {what}" for what in sent.wrong)


def identity_is_unique(evidence: Evidence) -> Found:
    """I2: one row per identity; each message is in at most one turn, and an answered one in exactly one."""
    for identity, kept in evidence.rows.by("inbound", "account", "conversation", "event_id").items():
        if len(kept) > 1:
            yield f"{identity} has {len(kept)} rows"
    said = said_by_message(evidence.rows)
    gone = deleted_lines(evidence.rows)
    for row in evidence.rows["inbound"]:
        if row["session"] in gone:
            continue
        entries = said.get(row["message"], [])
        turns = {(entry["session"], entry["turn"]) for entry in entries}
        expected = {(row["session"], row["turn"])} if row["state"] in IN_TURN else set()
        if row["state"] in {"observed", "held"}:
            expected = {(row["session"], 0)}
        if turns != expected:
            yield f"{row['event_id']} ({row['state']}) is journaled in {sorted(turns)}, not in {sorted(expected)}"
        words = [getattr(body_of(entry), "text", None) for entry in entries]
        forgotten = row["account"].startswith("agent:") and row["event_id"] not in evidence.texts
        if row["kind"] != "command" and expected and not forgotten and words != [evidence.texts.get(row["event_id"])]:
            yield f"{row['event_id']} is journaled with another text, or twice"


def said_by_message(rows: Rows) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for entry in rows["entry"]:
        if entry["kind"] in {"user", "observed"}:
            body = body_of(entry)
            if isinstance(body, UserSaid | Observed) and body.message:
                found[body.message].append(entry)
    return found


def deleted_lines(rows: Rows) -> set[str]:
    return {row["id"] for row in rows["session"] if row["state"] == "deleted"}


# --- I3: order -----------------------------------------------------------------------------------------------------


def nothing_is_missing(evidence: Evidence) -> Found:
    """I3: turns and entries have no gaps, in each session from its fork on."""
    turns, entries = evidence.rows.by("turn", "session"), evidence.rows.by("entry", "session")
    for session in evidence.rows["session"]:
        numbers = [row["n"] for row in turns.get(session["id"], [])]
        if numbers != list(range(session["fork_turn"] + 1, session["turns"] + 1)):
            yield f"{session['id']} has the turns {numbers} from fork {session['fork_turn']} to {session['turns']}"
        seqs = [row["seq"] for row in entries.get(session["id"], [])]
        if seqs != list(range(session["fork_seq"] + 1, session["last_seq"] + 1)):
            yield f"{session['id']} has the entries {seqs} from {session['fork_seq']} to {session['last_seq']}"
        spans = [(row["first_seq"], row["last_seq"]) for row in turns.get(session["id"], [])]
        for entry in entries.get(session["id"], []):
            inside = entry["turn"] == 0 or any(
                row["n"] == entry["turn"] and row["first_seq"] <= entry["seq"] <= row["last_seq"]
                for row in turns.get(session["id"], [])
            )
            if not inside:
                yield f"entry {entry['seq']} of {session['id']} is outside its turn {entry['turn']}"
        if any(later[0] <= earlier[1] for earlier, later in pairwise(spans)):
            yield f"turns of {session['id']} overlap: {spans}"


def order_is_kept(evidence: Evidence) -> Found:
    """I3: the messages of a chat are journaled in the order of their acceptance, across sessions."""
    said = said_by_message(evidence.rows)
    replies = {row["message"]: row["written"] for row in evidence.rows["reply"]}
    for mailbox, kept in evidence.rows.by("inbound", "mailbox").items():
        in_order = sorted(kept, key=lambda row: row["seq"])
        if [row["seq"] for row in in_order] != list(range(1, len(in_order) + 1)):
            yield f"the messages of {mailbox} are numbered {[row['seq'] for row in in_order]}"
        journaled = [
            (row["event_id"], said[row["message"]][0]["written"]) for row in in_order if row["message"] in said
        ]
        yield from (f"{b[0]} is journaled before {a[0]}" for a, b in pairwise(journaled) if b[1] < a[1])
        at_once = [row["message"] for row in in_order if row["kind"] == "signal" or row["state"] == "refused"]
        queued = [row for row in in_order if row["message"] in replies and row["message"] not in at_once]
        yield from (
            f"{b['event_id']} is answered before {a['event_id']}"
            for a, b in pairwise(queued)
            if replies[b["message"]] < replies[a["message"]]
        )


def acceptance_follows_time(evidence: Evidence) -> Found:
    """I3: a message first sent after the acknowledgement of another one follows it."""
    seqs = {row["event_id"]: row["seq"] for row in evidence.rows["inbound"]}
    by_chat: dict[Any, list[SentMessage]] = defaultdict(list)
    for sent in evidence.sent:
        if sent.say.event_id in seqs:
            by_chat[sent.say.chat].append(sent)
    for several in by_chat.values():
        for early in several:
            for late in several:
                after = early.acked_at is not None and early.acked_at < late.first_at
                if after and seqs[late.say.event_id] < seqs[early.say.event_id]:
                    yield f"{late.say.event_id} was sent after {early.say.event_id} was acknowledged and stands before"


# --- I4, I14: fences -----------------------------------------------------------------------------------------------


def fences_hold(evidence: Evidence) -> Found:
    """I4: the fence of a write is that of the claim, and never decreases within a mailbox."""
    for table, number in (("entry", "seq"), ("turn", "n")):
        for row in evidence.rows[table]:
            if row["fence"] != row["lease_fence"]:
                yield f"{table} {row['session']}/{row[number]}: fence {row['fence']}, lease {row['lease_fence']}"
    homes = {(row["session"], row["n"]): row["mailbox"] for row in evidence.rows["turn"]}
    newest: dict[str, int] = {}
    for entry in evidence.rows["entry"]:  # in the order in which they were written
        mailbox = homes.get((entry["session"], entry["turn"]))
        if mailbox is not None:
            if entry["fence"] < newest.get(mailbox, 0):
                yield f"entry {entry['session']}/{entry['seq']}: fence {entry['fence']} after {newest[mailbox]}"
            newest[mailbox] = max(newest.get(mailbox, 0), entry["fence"])


def claims_are_single(evidence: Evidence) -> Found:
    """I14: a fence belongs to one node, fences grow, and no mailbox has a fence that was never issued."""
    owners: dict[tuple[str, int], set[str]] = defaultdict(set)
    highest: Counter[str] = Counter()
    for claim in evidence.claims:
        owners[claim.mailbox, claim.fence].add(claim.node)
        highest[claim.mailbox] = max(highest[claim.mailbox], claim.fence)
    for (mailbox, fence), nodes in owners.items():
        if len(nodes) > 1:
            yield f"fence {fence} of {mailbox} was given to {len(nodes)} nodes"
    for row in evidence.rows["mailbox"]:
        if row["fence"] < highest[row["id"]]:
            yield f"{row['id']} has fence {row['fence']}; {highest[row['id']]} was given"


# --- I12, I15: the file, and rest ----------------------------------------------------------------------------------


def file_is_whole(evidence: Evidence) -> Found:
    if evidence.rows.integrity != "ok":
        yield evidence.rows.integrity


def world_is_at_rest(evidence: Evidence) -> Found:
    """I15: after healing all work ends, and the counters agree with the rows they count."""
    if evidence.stranded:
        yield f"still to do after healing: {evidence.stranded}"
    waiting = Counter(row["mailbox"] for row in evidence.rows["inbound"] if row["state"] in {"waiting", "in_turn"})
    for box in evidence.rows["mailbox"]:
        if box["depth"] != waiting[box["id"]]:
            yield f"{box['id']} says depth {box['depth']} and holds {waiting[box['id']]}"
        if (box["ready_at"] is not None) != (box["depth"] > 0):
            yield f"{box['id']} has depth {box['depth']} and ready_at {box['ready_at']}"


CHECKS: tuple[Check, ...] = (
    ("I1", acknowledged_is_kept),
    ("I2", identity_is_unique),
    ("I3", nothing_is_missing),
    ("I3", order_is_kept),
    ("I3", acceptance_follows_time),
    ("I4", fences_hold),
    ("I5", speakers_stay_the_same),
    ("I6", recalls_belong_to_their_turn),
    ("I6", recalls_stay_where_they_are),
    ("I6", lookups_say_who_reads),
    ("I7", effects_happen_at_the_providers_once),
    ("I7", effects_follow_the_journal),
    ("I7", effects_are_what_was_said),
    ("I7", providers_hold_what_counts),
    ("I7", marks_are_true),
    ("I7", lost_indexes_are_filled_again),
    ("I8", epochs_end_once),
    ("I8", epochs_follow_each_other),
    ("I8", models_are_asked_once),
    ("I9", sessions_switch_by_command_only),
    ("I9", summaries_are_whole),
    ("I9", contexts_are_whole),
    ("I9", trimming_has_a_cause),
    ("I9", notes_are_the_agents),
    ("I10", replies_come_to_an_end),
    ("I10", replies_are_posted_once),
    ("I10", posts_are_what_was_said),
    ("I10", replies_keep_their_order),
    ("I11", cursor_work_exists),
    ("I2", effects_happen_once),
    ("I2", recorded_once),
    ("I14", claims_are_single),
    ("I14", lanes_are_fenced),
    ("I12", file_is_whole),
    ("I15", replies_are_single),
    ("I15", world_is_at_rest),
    ("I19", humans_said_yes),
    ("I19", what_was_approved_runs),
    ("I20", spending_stops_at_the_limit),
    ("I20", answers_are_paid_once),
    ("I23", marks_follow_what_was_taken),
    ("I23", everything_said_was_read),
    ("I24", drafts_are_on_record_first),
    ("I24", drafts_give_way),
    ("I25", hops_are_counted),
    ("I25", letters_arrive_once),
    ("I25", circles_come_to_an_end),
    ("I25", letters_go_to_those_listed),
    ("I25", chains_limit_tools),
    ("I26", recalls_end_with_the_link),
    ("I26", links_are_as_asked_for),
    ("I27", moved_chats_go_on),
    ("I28", attachments_can_be_read),
    ("I29", resends_send_once_more),
    ("I29", decisions_stand),
    ("I32", acts_are_on_record_once),
    ("I32", trail_is_whole),
    ("I33", contexts_are_for_their_readers),
    ("I33", notes_are_kept_apart),
    ("I33", places_are_kept_apart),
    ("I33", looks_are_for_whom_they_are),
    ("I34", only_the_operator_speaks_as_system),
    ("I35", sessions_are_changed_by_those_who_may),
    ("I35", turns_are_undone_by_those_who_may),
    ("I35", turns_are_stopped_by_those_who_may),
    ("I35", calls_are_decided_by_those_who_may),
    ("I36", paused_agents_begin_no_turn),
)
