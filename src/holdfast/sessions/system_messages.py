"""The runtime's own messages to a chat."""

from holdfast.inbox.message import MailboxFull, Status, TooMany, Unfit
from holdfast.sessions.command import HELP, CommandVerb

UNFIT = {  # by error code
    "message_too_large": "it is too long. Send it in shorter parts.",
    "invalid_unicode": "it contains invalid characters. Send it again without them.",
    "empty_message": "it contains no visible characters.",
}
UNFIT_ELSE = "an internal error occurred, which the operator can see. Send it again later."
UNDO_NOTE = "The effects of tools are not reversed; stored memories are retracted only where their provider can do it."


def status_text(status: Status) -> str:
    if status.turn is None:
        running = "Nothing is running."
    else:
        running = f"Turn {status.turn} is {status.phase} (attempt {status.attempt})"
        running += ", stopping." if status.stopping else "."
    waiting = max(0, status.depth - status.in_turn)
    queued = f"{waiting} message{'s' if waiting != 1 else ''} waiting."
    return f"{running} {queued} Session: {status.session or 'none yet'}."


def suggestion_text(text: str, meant: CommandVerb) -> str:
    word = text.split(maxsplit=1)[0]
    return (
        f"There is no command {word}. Did you mean {HELP[meant][0]}? Nothing was changed, and the agent did not "
        "receive the message. To send it to the agent unchanged, put a word before it."
    )


def stop_text(turn: int | None) -> str:
    return f"Stopping turn {turn}." if turn is not None else "Nothing is running."


def new_text(session: str, *, had_one: bool) -> str:
    return f"New session {session}." if had_one else f"This session is already new: {session}."


def resumed_text(session: str, title: str | None, *, epoch: int) -> str:
    name = f"“{title}” ({session})" if title else session
    again = f" It was closed and is open again (epoch {epoch})." if epoch > 1 else ""
    return f"Resumed {name}.{again}"


def not_found_text(wanted: str) -> str:
    return f"No session {wanted!r} is visible here. Send /resume with its id or its exact title."


def live_elsewhere_text(wanted: str) -> str:
    return f"{wanted!r} is in use in another chat. Send /branch there, or wait until the session is idle."


def branched_text(child: str, parent: str, title: str | None) -> str:
    return f"Branched {parent} into {child}{f' “{title}”' if title else ''}. The original is unchanged."


def undone_text(count: int, asked: int) -> str:
    if count == 0:
        return "There is no turn to take back."
    fewer = "" if count == asked else f" (only {count} of the {asked} asked for existed)"
    return f"Took back {count} turn{'s' if count != 1 else ''}{fewer}. {UNDO_NOTE}"


def confirm_delete_text(session: str, title: str | None, turns: int, word: str) -> str:
    name = f"“{title}” ({session})" if title else session
    what = f"{turns} turn{'s' if turns != 1 else ''}"
    return (
        f"This would close the session {name} and erase everything said in it: {what}. It cannot be undone. "
        f"Nothing was deleted yet. To confirm, send: /delete {word}"
    )


def wrong_word_text(typed: str) -> str:
    return (
        f"{typed[:20]!r} does not confirm a deletion: new messages arrived since, the session changed, or the word "
        "was given to another person. Nothing was deleted. Send /delete to start again."
    )


def failed_text(reason: str) -> str:
    return f"I could not answer this message: {reason} It is kept; send /retry to try again."


def interrupted_text(reason: str) -> str:
    return f"Interrupted ({reason})."


def refused_text(outcome: MailboxFull | TooMany | Unfit) -> str:
    if isinstance(outcome, Unfit):
        return f"I could not accept this message: {UNFIT.get(outcome.reason, UNFIT_ELSE)}"
    if isinstance(outcome, MailboxFull):
        return f"I could not accept this message: {outcome.depth} messages are already waiting. Send it again later."
    seconds = max(1, round(outcome.retry_after_ms / 1000))
    return f"I could not accept this message: too many messages arrived at once. Send it again in {seconds} seconds."


GIVEN_UP = "An operator took this message out of the queue, so it was not answered. Send it again if it still matters."
NO_SESSION = "There is no session here yet. Send a message first."
BAD_UNDO = "Send /undo or /undo <n>, with n from 1 to 100."
NOTHING_TO_RETRY = "There is no turn to retry."
DELETED = "The session is closed and everything said in it is erased. The next message opens a new session."
