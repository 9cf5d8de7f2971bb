"""run_command: one conversation command, applied and acknowledged with its reply in one transaction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from holdfast.audit import action_sql
from holdfast.audit.action import Act, ActorKind, By
from holdfast.inbox.identity_sql import KIN
from holdfast.inbox.mailbox import Claim
from holdfast.kernel.errors import InvariantBroken
from holdfast.kernel.ids import SessionId
from holdfast.memory.cursor_sql import schedule_tail
from holdfast.memory.visibility import AGENTS, is_group
from holdfast.outbox.reply_sql import insert_reply
from holdfast.sessions import system_messages
from holdfast.sessions.command import CommandVerb
from holdfast.sessions.command_rights import NEEDS, CommandPlace, Needs, NotAllowed, delete_word, judge, typed_word
from holdfast.sessions.command_rights_sql import Giver, given_by, giver, judge_turns
from holdfast.sessions.finalisation_sql import close_epoch, reopen
from holdfast.sessions.session import CommandDone, CommandRun, clean_title, title_key
from holdfast.sessions.session_sql import blank_session, go_live, lock_line, new_session, pick_turns, undo_turns
from holdfast.store.agent_lock_sql import hold_agents, share_agent
from holdfast.store.script import Columns, Script, one, run, verb
from holdfast.turns.turn import NewReply
from holdfast.turns.turn_sql import Held, hold, lighten

MESSAGE = "select state, channel from inbound where message = :message and mailbox = :mailbox"
FIRST_RESULT = """
select reply.body, reply.session, inbound.session from inbound join reply on reply.message = inbound.message
 where inbound.message = :message order by reply.at, reply.id limit 1"""
DONE = "update inbound set state = 'command', session = :session where message = :message"
# The chat's own sessions. A private chat also sees other sessions of the same person in which no one else spoke:
# other people's words stay in their chat, and private words never enter a group. A group's sessions stay in it
# (`_find`).
VISIBLE = f"""
agent = :agent and state <> 'deleted' and purpose = 'conversation'
   and (mailbox = :mailbox or (:alone = 1 and several = 0 and (principal = :principal or principal in ({KIN}))))"""


class ResumableSession(NamedTuple):
    id: SessionId
    title: str | None
    mailbox: str
    address: str | None


RESUMABLE = Columns(ResumableSession, address="(select address from mailbox where mailbox.id = session.mailbox)")
FIND_ID = f"select {RESUMABLE} from session where id = :wanted and {VISIBLE}"
FIND_TITLE = f"select {RESUMABLE} from session where title_key = :wanted and {VISIBLE} order by active_at desc, id desc"
# Other people read such a chat, although it is not a group: they have a session here, spoke here under the current
# links even if their session has moved since, or wait to be answered here. An agent is not a person.
ANOTHER = f"principal <> :principal and principal not in ({KIN})"
OTHERS_SPOKE = f"""
select 1 from session where mailbox = :mailbox and (several = 1 or ({ANOTHER}))
union all
select 1 from mailbox where id = :mailbox and (shared = 1 or (speaker <> :principal and speaker not in ({KIN})))
union all
select 1 from linked_speaker where mailbox = :mailbox and {ANOTHER}
union all
select 1 from inbound
 where mailbox = :mailbox and state in ('waiting', 'in_turn') and {ANOTHER} and principal not like '{AGENTS}%'
 limit 1"""
WHERE_LIVE = "select id from mailbox where session_id = :session"
LEAVE_OTHER = """
update mailbox set session_id = null, fence = fence + 1
 where id = :mailbox and session_id = :session and owner is null and depth = 0 returning id"""
MOVE_HERE = "update session set mailbox = :mailbox, active_at = :now where id = :session"
BRANCH = """
insert into session (id, agent, mailbox, principal, purpose, parent_id, fork_seq, fork_n, fork_turn, title,
                     title_key, state, last_seq, committed_seq, turns, summaries, token_ratio, opened_at,
                     active_at, idle_from, several)
select :child, :agent, :mailbox, :principal, 'conversation', :parent, :seq, :n, :turn, :title,
       :title_key, 'open', :seq, :seq, :turn, :n, :ratio, :now, :now, :now,
       case when principal = :principal then several else 1 end
  from session where id = :parent"""
RECORD = """
insert into operation (id, kind, session, owner, fence, started_at, ended_at, outcome, detail)
values (:id, :kind, :session, :owner, :fence, :now, :now, 'done', null)"""
ACTS: Mapping[CommandVerb, Act] = {
    CommandVerb.DELETE: Act.SESSION_DELETED,
    CommandVerb.UNDO: Act.SESSION_UNDONE,
    CommandVerb.RETRY: Act.SESSION_UNDONE,
    CommandVerb.NEW: Act.SESSION_SWITCHED,
    CommandVerb.RESUME: Act.SESSION_SWITCHED,
    CommandVerb.BRANCH: Act.SESSION_SWITCHED,
}
SET_TITLE = "update session set title = :title, title_key = :title_key where id = :session"


@dataclass(frozen=True, slots=True)
class Live:
    """The locked session of the mailbox."""

    id: SessionId
    title: str | None
    last_seq: int
    committed_seq: int
    turns: int
    summaries: int
    token_ratio: float
    open_turn: int | None


LIVE_COLUMNS = Columns(Live)
LIVE = f"select {LIVE_COLUMNS} from session where id = :session /*lock*/"
Handler: TypeAlias = Callable[[Claim, CommandRun, Live | None], Script[CommandDone]]


@verb
def run_command(claim: Claim, run_: CommandRun) -> Script[CommandDone]:
    deletes = run_.command.verb is CommandVerb.DELETE and bool(run_.command.argument)
    yield from hold_agents([claim.agent]) if deletes else share_agent(claim.agent)
    other = yield from _other_mailbox(claim, run_)
    held = yield from hold(claim, other=other)
    message = yield from one(MESSAGE, message=run_.message, mailbox=claim.mailbox)
    if message is None:
        raise InvariantBroken(f"the command {run_.message} is not in its mailbox", message=run_.message)
    if message[0] != "waiting":
        return (yield from _repeated(run_))
    if deletes and held.session:
        yield from lock_line(held.session)
    live = yield from _live(held)
    given = yield from given_by(run_.message, mailbox=claim.mailbox, address=claim.address, operators=run_.operators)
    who = yield from giver(run_.command.verb, given)
    refused = yield from _judged(run_, who, live)
    here, handler = live.id if live else None, HANDLERS.get(run_.command.verb)
    if refused is not None:
        done = CommandDone(here, refused.text, refused=refused.code)
    elif handler is not None:
        done = yield from handler(claim, run_, live)
    else:  # the worker has answered it already; it does not change the session
        done = CommandDone(here, run_.answer or "")
    yield from _record(claim, run_, who, live, done)
    reply = NewReply(id=run_.reply, text=done.text)
    yield from insert_reply(
        reply,
        mailbox=claim.mailbox,
        address=claim.address,
        channel=message[1],
        message=run_.message,
        session=done.session,
    )
    yield from run(DONE, message=run_.message, session=held.session)
    yield from lighten(claim, 1)
    return done


def _judged(run_: CommandRun, who: Giver, live: Live | None) -> Script[NotAllowed | None]:
    """The refusal, if the sender may not give the command; otherwise None."""
    verb = run_.command.verb
    if NEEDS[verb] is not Needs.TURNS:
        return judge(verb, who.speaker)
    count = 1 if verb is CommandVerb.RETRY else run_.command.undo_turns
    if live is None or count is None:
        return judge(verb, who.speaker, owns=True)  # the command changes nothing
    return (yield from judge_turns(verb, who, (yield from pick_turns(live.id, count)).by_session))


def _record(claim: Claim, run_: CommandRun, who: Giver, live: Live | None, done: CommandDone) -> Script[None]:
    """Write the audit record of a refusal, or of a session switch in a chat with other members."""
    act, sender = ACTS.get(run_.command.verb), _sender(claim, run_)
    if act is not None and done.refused:
        yield from action_sql.refuse(act, sender, live.id if live else claim.mailbox, done.refused)
    elif act is Act.SESSION_SWITCHED and done.switched and who.speaker.place is not CommandPlace.PRIVATE:
        yield from action_sql.record(act, sender, done.session or "", command=run_.command.verb.value)


def _repeated(run_: CommandRun) -> Script[CommandDone]:
    """The result of an earlier call that was committed but whose result was lost."""
    row = yield from one(FIRST_RESULT, message=run_.message)
    if row is None:
        raise InvariantBroken(f"{run_.message} is no command that was run", message=run_.message)
    text, after, before = row
    return CommandDone(SessionId(after) if after else None, bytes(text).decode(), switched=after != before)


def _live(held: Held) -> Script[Live | None]:
    live = (yield from LIVE_COLUMNS.one(LIVE, session=held.session)) if held.session else None
    if live is None:
        return None
    if live.open_turn is not None:
        raise InvariantBroken(f"a command while turn {live.open_turn} of {live.id} is open", session=live.id)
    yield from reopen(live.id)  # a command is mail too, so an expiring session continues
    return live


# --- /new, /resume, /branch ------------------------------------------------------------------------


def _new(claim: Claim, run_: CommandRun, live: Live | None) -> Script[CommandDone]:
    if live is not None and live.last_seq == 0:
        return CommandDone(live.id, system_messages.new_text(live.id, had_one=False))
    if live is not None:
        yield from schedule_tail(live.id, run_.policies)
        yield from close_epoch(live.id, "new")
    yield from new_session(claim, run_.new_session, run_.principal)
    return CommandDone(run_.new_session, system_messages.new_text(run_.new_session, had_one=True), switched=True)


def _other_mailbox(claim: Claim, run_: CommandRun) -> Script[str]:
    """The mailbox in which the session to resume is live, so that both rows are locked in id order (D4)."""
    if run_.command.verb is not CommandVerb.RESUME:
        return ""
    target = yield from _find(claim, run_)
    row = (yield from one(WHERE_LIVE, session=target.id)) if target else None
    return str(row[0]) if row else ""


def _find(claim: Claim, run_: CommandRun) -> Script[ResumableSession | None]:
    """The session that the sender may resume under this id or title."""
    wanted = clean_title(run_.command.argument)
    if not wanted:
        return None
    others = yield from one(OTHERS_SPOKE, mailbox=claim.mailbox, principal=run_.principal)
    alone = int(others is None and not is_group(claim.address))
    scope = {"agent": claim.agent, "mailbox": claim.mailbox, "principal": run_.principal, "alone": alone}
    found = yield from RESUMABLE.rows(FIND_ID, wanted=wanted, **scope)
    named = yield from RESUMABLE.rows(FIND_TITLE, wanted=title_key(wanted), **scope)
    visible = (one_ for one_ in (*found, *named) if one_.mailbox == claim.mailbox or not stays(one_.address))
    return next(visible, None)


def stays(address: str | None) -> bool:
    """Whether sessions of a chat are resumed only there: a group's sessions belong to all members."""
    return is_group(address or "")


def _resume(claim: Claim, run_: CommandRun, live: Live | None) -> Script[CommandDone]:
    here = live.id if live else None
    wanted = clean_title(run_.command.argument)
    target = yield from _find(claim, run_)
    if target is None:
        return CommandDone(here, system_messages.not_found_text(wanted))
    found, title = target.id, target.title
    if found == here:
        return CommandDone(found, system_messages.resumed_text(found, title, epoch=1))
    if not (yield from _is_freed(found, run_)):
        return CommandDone(here, system_messages.live_elsewhere_text(wanted))
    # The caller holds the agent's shared lock, so the session cannot be forgotten now.
    yield from run(MOVE_HERE, session=found, mailbox=claim.mailbox)
    if here is not None:
        yield from schedule_tail(here, run_.policies)
    epoch = yield from reopen(found)
    yield from go_live(claim, found)
    return CommandDone(found, system_messages.resumed_text(found, title, epoch=epoch or 1), switched=True)


def _is_freed(session: SessionId, run_: CommandRun) -> Script[bool]:
    """Detach the session from the mailbox in which it is live, if that is idle; the update itself checks this."""
    elsewhere = yield from one(WHERE_LIVE, session=session)
    if elsewhere is None:
        return True
    if (yield from one(LEAVE_OTHER, mailbox=elsewhere[0], session=session)) is None:
        return False
    yield from schedule_tail(session, run_.policies)
    return True


def _branch(claim: Claim, run_: CommandRun, live: Live | None) -> Script[CommandDone]:
    if live is None:
        return CommandDone(None, system_messages.NO_SESSION)
    child, title = run_.new_session, clean_title(run_.command.argument) or None
    yield from schedule_tail(live.id, run_.policies)
    yield from run(
        BRANCH,
        child=child,
        agent=claim.agent,
        mailbox=claim.mailbox,
        principal=run_.principal,
        parent=live.id,
        seq=live.committed_seq,
        n=live.summaries,
        turn=live.turns,
        title=title,
        title_key=title_key(title) if title else None,
        ratio=live.token_ratio,
    )
    yield from run(RECORD, id=run_.operation, kind="branch", session=child, owner=claim.node, fence=claim.fence)
    yield from go_live(claim, child)
    return CommandDone(child, system_messages.branched_text(child, live.id, title), switched=True)


# --- within the session ----------------------------------------------------------------------------


def _undo(claim: Claim, run_: CommandRun, live: Live | None) -> Script[CommandDone]:
    count = run_.command.undo_turns
    if live is None or count is None:
        return CommandDone(
            live.id if live else None, system_messages.BAD_UNDO if count is None else system_messages.NO_SESSION
        )
    found = yield from pick_turns(live.id, count)
    yield from undo_turns(live.id, claim, found, by=run_.message)
    if found.picked:
        yield from action_sql.record(Act.SESSION_UNDONE, _sender(claim, run_), live.id, turns=len(found.picked))
    return CommandDone(live.id, system_messages.undone_text(len(found.picked), count))


def _title(_claim: Claim, run_: CommandRun, live: Live | None) -> Script[CommandDone]:
    if live is None:
        return CommandDone(None, system_messages.NO_SESSION)
    title = clean_title(run_.command.argument)
    if not title:
        text = f"The title is “{live.title}”." if live.title else "There is no title yet."
        return CommandDone(live.id, text)
    yield from run(SET_TITLE, session=live.id, title=title, title_key=title_key(title))
    return CommandDone(live.id, f"The title is now “{title}”.")


def _delete(claim: Claim, run_: CommandRun, live: Live | None) -> Script[CommandDone]:
    if live is None:
        return CommandDone(None, system_messages.NO_SESSION)
    wanted, typed = delete_word(live.id, live.committed_seq, run_.principal), typed_word(run_.command.argument)
    if not run_.command.argument:
        return CommandDone(live.id, system_messages.confirm_delete_text(live.id, live.title, live.turns, wanted))
    if typed != wanted:
        return CommandDone(live.id, system_messages.wrong_word_text(run_.command.argument))
    yield from blank_session(live.id)
    yield from go_live(claim, None)
    yield from action_sql.record(Act.SESSION_DELETED, _sender(claim, run_), live.id, agent=claim.agent)
    return CommandDone(None, system_messages.DELETED, switched=True)


def _sender(claim: Claim, run_: CommandRun) -> By:
    """The sender of the command, for the audit trail."""
    return By(kind=ActorKind.PRINCIPAL, id=run_.principal, origin=claim.address)


HANDLERS: dict[CommandVerb, Handler] = {
    CommandVerb.NEW: _new,
    CommandVerb.RESUME: _resume,
    CommandVerb.BRANCH: _branch,
    CommandVerb.UNDO: _undo,
    CommandVerb.TITLE: _title,
    CommandVerb.DELETE: _delete,
}
