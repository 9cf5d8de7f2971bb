"""run_command: one conversation command, applied and acknowledged with its reply in one transaction."""

from collections.abc import Callable
from typing import TypeAlias

from holdfast.core import say
from holdfast.core.command import TITLE_CHARS_MAX, Verb
from holdfast.core.errors import InvariantBroken
from holdfast.core.ids import SessionId
from holdfast.core.mailbox import Claim
from holdfast.core.session import CommandDone, CommandRun
from holdfast.core.turn import Reply
from holdfast.stores.script import Row, Script, one, run
from holdfast.stores.verbs.cursors import schedule_tail
from holdfast.stores.verbs.fence import Held, hold, lighten
from holdfast.stores.verbs.reply import insert_reply
from holdfast.stores.verbs.sessions import go_live, new_session, undo_turns

MESSAGE = "select state, session, channel from inbound where message = :message"
FIRST_REPLY = "select body, session from reply where message = :message order by at, id limit 1"
DONE = "update inbound set state = 'command', session = :session where message = :message"
LIVE = """
select id, title, last_seq, committed_seq, turns, summaries, fork_seq, open_turn, token_ratio, epoch
  from session where id = :session /*lock*/"""
CLOSE = "update session set state = 'closed', closed_at = :now, reason = :reason where id = :session"
FIND = """
select id, title, state, epoch, mailbox from session
 where agent = :agent and (id = :wanted or lower(title) = lower(:wanted)) and state <> 'deleted'
   and purpose = 'conversation' and (mailbox = :mailbox or principal = :principal)
 order by case when id = :wanted then 0 else 1 end, active_at desc limit 1"""
WHERE_LIVE = "select id, owner, depth from mailbox where session_id = :session"
LEAVE_OTHER = "update mailbox set session_id = null, fence = fence + 1 where id = :mailbox"
REOPEN = """
update session
   set epoch = epoch + case when state = 'closed' then 1 else 0 end, state = 'open', closed_at = null, reason = null,
       mailbox = :mailbox, active_at = :now
 where id = :session returning epoch"""
BRANCH = """
insert into session (id, agent, mailbox, principal, purpose, parent_id, fork_seq, fork_n, fork_turn, title, state,
                     last_seq, committed_seq, turns, summaries, token_ratio, opened_at, active_at)
values (:child, :agent, :mailbox, :principal, 'conversation', :parent, :seq, :n, :turn, :title, 'open',
        :seq, :seq, :turn, :n, :ratio, :now, :now)"""
RECORD = """
insert into operation (id, kind, session, owner, fence, started_at, ended_at, outcome, detail)
values (:id, :kind, :session, :owner, :fence, :now, :now, 'done', null)"""
SET_TITLE = "update session set title = :title where id = :session"
BLANK_ENTRIES = "update entry set body = :blank where session = :session and kind <> 'undo'"
BLANK_SUMMARIES = "update summary set body = :blank where session = :session"
BLANK_INBOUND = "update inbound set body = :blank where session = :session and message <> :message"
BLANK_REPLIES = "update reply set body = :blank where session = :session"
DROP_UNSENT = """
update delivery set state = 'dropped', reason = 'deleted' where stream = :session and state = 'scheduled' and attempt = 0"""
DELETED = """
update session set state = 'deleted', closed_at = :now, reason = 'deleted', title = null where id = :session"""

Handler: TypeAlias = Callable[[Claim, CommandRun, Held], Script[CommandDone]]


def run_command(claim: Claim, run_: CommandRun) -> Script[CommandDone]:
    other = yield from _other_mailbox(claim, run_)
    held = yield from hold(claim, other=other)
    message = yield from one(MESSAGE, message=run_.message)
    if message is None:
        raise InvariantBroken(f"the command {run_.message} is not in any mailbox", message=run_.message)
    if message[0] != "waiting":
        return (yield from _repeated(run_))
    done = yield from HANDLERS[run_.command.verb](claim, run_, held)
    reply = Reply(id=run_.reply, text=done.text)
    yield from insert_reply(reply, claim.mailbox, claim.address, message[2], run_.message, done.session, None)
    yield from run(DONE, message=run_.message, session=held.session or done.session)
    yield from lighten(claim, 1)
    return done


def _repeated(run_: CommandRun) -> Script[CommandDone]:
    row = yield from one(FIRST_REPLY, message=run_.message)
    return CommandDone(SessionId(row[1]) if row and row[1] else None, bytes(row[0]).decode() if row else "")


def _other_mailbox(claim: Claim, run_: CommandRun) -> Script[str]:
    """Where the session to resume is live, so that both rows are locked in id order (D4)."""
    if run_.command.verb is not Verb.RESUME:
        return ""
    target = yield from _find(claim, run_)
    row = (yield from one(WHERE_LIVE, session=target[0])) if target else None
    return str(row[0]) if row else ""


def _find(claim: Claim, run_: CommandRun) -> Script[Row | None]:
    return (
        yield from one(
            FIND,
            agent=claim.agent,
            wanted=run_.command.argument,
            mailbox=claim.mailbox,
            principal=run_.principal,
        )
    )


def _live(held: Held) -> Script[Row | None]:
    return (yield from one(LIVE, session=held.session)) if held.session else None


def _leave(session: Row, run_: CommandRun) -> Script[None]:
    yield from schedule_tail(SessionId(session[0]), run_.policies, start=session[6])


def _new(claim: Claim, run_: CommandRun, held: Held) -> Script[CommandDone]:
    old = yield from _live(held)
    if old is not None and old[4] == 0 and old[2] == 0:
        return CommandDone(held.session, say.new_text(old[0], had_one=False))
    if old is not None:
        yield from _leave(old, run_)
        yield from run(CLOSE, session=old[0], reason="new")
    yield from new_session(claim, run_.new_session, run_.principal)
    return CommandDone(run_.new_session, say.new_text(run_.new_session, had_one=True), switched=True)


def _resume(claim: Claim, run_: CommandRun, held: Held) -> Script[CommandDone]:
    wanted = run_.command.argument
    target = (yield from _find(claim, run_)) if wanted else None
    if target is None:
        return CommandDone(held.session, say.not_found_text(wanted))
    found, title = SessionId(target[0]), target[1]
    if found == held.session:
        return CommandDone(found, say.resumed_text(found, title, epoch=1))
    elsewhere = yield from one(WHERE_LIVE, session=found)
    if elsewhere is not None:
        if elsewhere[1] is not None or elsewhere[2] > 0:
            return CommandDone(held.session, say.live_elsewhere_text(wanted))
        yield from run(LEAVE_OTHER, mailbox=elsewhere[0])
    old = yield from _live(held)
    if old is not None:
        yield from _leave(old, run_)
    row = yield from one(REOPEN, session=found, mailbox=claim.mailbox)
    yield from go_live(claim, found)
    return CommandDone(found, say.resumed_text(found, title, epoch=row[0] if row else 1), switched=True)


def _branch(claim: Claim, run_: CommandRun, held: Held) -> Script[CommandDone]:
    parent = yield from _live(held)
    if parent is None:
        return CommandDone(None, say.NO_SESSION)
    title = run_.command.argument[:TITLE_CHARS_MAX] or None
    yield from _leave(parent, run_)
    yield from run(
        BRANCH,
        child=run_.new_session,
        agent=claim.agent,
        mailbox=claim.mailbox,
        principal=run_.principal,
        parent=parent[0],
        seq=parent[3],
        n=parent[5],
        turn=parent[4],
        title=title,
        ratio=parent[8],
    )
    yield from run(
        RECORD,
        id=run_.operation,
        kind="branch",
        session=run_.new_session,
        owner=claim.node,
        fence=claim.fence,
    )
    yield from go_live(claim, run_.new_session)
    return CommandDone(run_.new_session, say.branched_text(run_.new_session, parent[0], title), switched=True)


def _undo(claim: Claim, run_: CommandRun, held: Held) -> Script[CommandDone]:
    count = run_.command.undo_turns
    if held.session is None or count is None:
        return CommandDone(held.session, say.BAD_UNDO if count is None else say.NO_SESSION)
    undone = yield from undo_turns(held.session, claim, count, by=run_.message)
    return CommandDone(held.session, say.undone_text(undone.count, count))


def _title(_claim: Claim, run_: CommandRun, held: Held) -> Script[CommandDone]:
    session = yield from _live(held)
    if session is None:
        return CommandDone(None, say.NO_SESSION)
    title = run_.command.argument[:TITLE_CHARS_MAX]
    if not title:
        return CommandDone(held.session, f"The title is “{session[1]}”." if session[1] else "There is no title yet.")
    yield from run(SET_TITLE, session=held.session, title=title)
    return CommandDone(held.session, f"The title is now “{title}”.")


def _delete(claim: Claim, run_: CommandRun, held: Held) -> Script[CommandDone]:
    if held.session is None:
        return CommandDone(None, say.NO_SESSION)
    for blanking in (BLANK_ENTRIES, BLANK_SUMMARIES, BLANK_REPLIES):
        yield from run(blanking, session=held.session, blank=b"")
    yield from run(BLANK_INBOUND, session=held.session, blank=b"", message=run_.message)
    yield from run(DROP_UNSENT, session=held.session)
    yield from run(DELETED, session=held.session)
    yield from go_live(claim, None)
    return CommandDone(None, say.DELETED, switched=True)


def _answer(_claim: Claim, run_: CommandRun, held: Held) -> Script[CommandDone]:
    """Commands that the worker has answered already; nothing of the session changes here."""
    yield from ()
    return CommandDone(held.session, run_.answer or "")


HANDLERS: dict[Verb, Handler] = {
    Verb.NEW: _new,
    Verb.RESUME: _resume,
    Verb.BRANCH: _branch,
    Verb.UNDO: _undo,
    Verb.TITLE: _title,
    Verb.DELETE: _delete,
    Verb.RETRY: _answer,
    Verb.COMPRESS: _answer,
    Verb.HELP: _answer,
}
