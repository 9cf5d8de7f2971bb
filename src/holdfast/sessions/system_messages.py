"""The sentences that the runtime itself says to people. One place, so that they stay short and honest."""

from holdfast.inbox.message import MailboxFull, Status, TooMany, Unfit
from holdfast.sessions.command import HELP, Verb

UNFIT = {  # by the code of what is wrong with a message
    "message_too_large": "it is too long. Send it in shorter parts.",
    "invalid_unicode": "it has characters that are no valid text. Send it again without them.",
    "empty_message": "it has no visible character.",
}
UNFIT_ELSE = "something is wrong here, and the operator can see it. Send it again later."
UNDO_NOTE = "What tools did and what memory already holds is not reversed, except what providers can retract."


def status_text(status: Status) -> str:
    if status.turn is None:
        running = "Nothing is running."
    else:
        running = f"Turn {status.turn} is {status.phase} (attempt {status.attempt})"
        running += ", stopping." if status.stopping else "."
    waiting = max(0, status.depth - status.in_turn)
    queued = f"{waiting} message{'s' if waiting != 1 else ''} waiting."
    return f"{running} {queued} Session: {status.session or 'none yet'}."


def suggestion_text(text: str, meant: Verb) -> str:
    word = text.split(maxsplit=1)[0]
    return (
        f"There is no command {word}. Did you mean {HELP[meant][0]}? Nothing was changed, and the agent was not told. "
        "To say it to the agent as it stands, put a word before it."
    )


def stop_text(turn: int | None) -> str:
    return f"Stopping turn {turn}." if turn is not None else "Nothing is running."


def new_text(session: str, *, had_one: bool) -> str:
    return f"New session {session}." if had_one else f"This is a fresh session: {session}."


def resumed_text(session: str, title: str | None, *, epoch: int) -> str:
    name = f"“{title}” ({session})" if title else session
    again = f" It was closed and is open again (epoch {epoch})." if epoch > 1 else ""
    return f"Resumed {name}.{again}"


def not_found_text(wanted: str) -> str:
    return f"No session {wanted!r} is visible here. Say /resume with its id or its exact title."


def live_elsewhere_text(wanted: str) -> str:
    return f"{wanted!r} is in use in another chat. Say /branch there, or wait until it is idle."


def branched_text(child: str, parent: str, title: str | None) -> str:
    return f"Branched {parent} into {child}{f' “{title}”' if title else ''}. The original stays as it is."


def undone_text(count: int, asked: int) -> str:
    if count == 0:
        return "There is no turn to take back."
    fewer = "" if count == asked else f" (only {count} of the {asked} asked for existed)"
    return f"Took back {count} turn{'s' if count != 1 else ''}{fewer}. {UNDO_NOTE}"


def confirm_delete_text(session: str, title: str | None, turns: int, word: str) -> str:
    name = f"“{title}” ({session})" if title else session
    what = f"{turns} turn{'s' if turns != 1 else ''}"
    return (
        f"This would close the session {name} and blank everything said in it: {what}. It cannot be taken back. "
        f"Nothing was deleted yet. To do it, send: /delete {word}"
    )


def wrong_word_text(typed: str) -> str:
    return (
        f"{typed[:20]!r} does not confirm a deletion here now: more was said since, the session is another one, or the "
        "word was given to somebody else. Nothing was deleted. Send /delete to see what would go."
    )


def failed_text(reason: str) -> str:
    return f"I could not answer this message: {reason} It is kept; say /retry to try again."


def interrupted_text(reason: str) -> str:
    return f"Interrupted ({reason})."


def refused_text(outcome: MailboxFull | TooMany | Unfit) -> str:
    if isinstance(outcome, Unfit):
        return f"I could not take this message: {UNFIT.get(outcome.reason, UNFIT_ELSE)}"
    if isinstance(outcome, MailboxFull):
        return f"I could not take this message: {outcome.depth} are waiting already. Send it again later."
    seconds = max(1, round(outcome.retry_after_ms / 1000))
    return f"I could not take this message: too many came at once. Send it again in {seconds} seconds."


NO_SESSION = "There is no session here yet: say something first."
BAD_UNDO = "Say /undo or /undo <n>, with n from 1 to 100."
NOTHING_TO_RETRY = "There is no turn to try again."
DELETED = "The session is closed and everything said in it is blanked. The next message opens a new one."
