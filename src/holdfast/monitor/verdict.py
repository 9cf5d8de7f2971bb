"""One sentence about a message: what became of it, of its reply and of its memory; and whether a person has to act."""

from collections.abc import Sequence

from holdfast.inbox.message import MessageState
from holdfast.memory.delivery import DeliveryView
from holdfast.monitor.durations import ago
from holdfast.monitor.trace import TracedSend, TraceFacts
from holdfast.outbox.post import PULLED


def needs_you(facts: TraceFacts) -> bool:
    """Whether a person has to act, or to look at the platform or the provider."""
    sends = [sent.view.state for sent in (*facts.deliveries, *facts.note_deliveries) if sent.view.decided_by is None]
    replies = [reply.state for reply in facts.replies if reply.decided_by is None]
    return (
        any(asked.decided_at is None for asked in facts.approvals)
        or not {"parked", "uncertain"}.isdisjoint(sends)
        or not {"failed", "uncertain"}.isdisjoint(replies)
        or (not facts.message.is_over and not facts.nodes_alive)
        or (facts.message.state is MessageState.WAITING and facts.pause is not None)
    )


def verdict(facts: TraceFacts) -> str:
    """One sentence about the message, its reply and its memory."""
    said = _said(facts)
    handed = sum(reply.channel == "agent" for reply in facts.replies)
    if handed:
        said += "; one message went to another agent" if handed == 1 else f"; {handed} messages went to other agents"
    if facts.undone is not None:
        said += "; undone later"
    if facts.is_forgotten and facts.message.state is not MessageState.REFUSED:
        said += "; its words are erased"
    return f"{said}.{_kept(facts.deliveries)}"


def _said(facts: TraceFacts) -> str:
    message = facts.message
    why = (message.reason or "no reason is known").removesuffix(".")
    match message.state:
        case MessageState.WAITING:
            return _waiting(facts)
        case MessageState.IN_TURN:
            return _running(facts)
        case MessageState.ANSWERED:
            return f"Answered, {_reply_words(facts)}"
        case MessageState.FAILED:
            return f"Failed: {why}; the sender was told, {_reply_words(facts)}"
    return {
        MessageState.REFUSED: f"Refused: {why}",
        MessageState.COMMAND: "Carried out as a command",
        MessageState.OBSERVED: "Observed: it was not addressed to the agent",
        MessageState.HELD: f"Held without an answer: {why}",
        MessageState.INTERRUPTED: f"Interrupted: {why}",
    }[message.state]


def _waiting(facts: TraceFacts) -> str:
    if facts.pause is not None:
        pause = facts.pause
        since = ago(facts.at - pause.paused_at)
        return f"Accepted and waiting; {pause.who} paused {pause.agent} {since}, and `holdfast resume` lets it go on"
    if not facts.nodes_alive:
        return "Accepted and waiting; no process serves this store"
    behind = facts.message.queued_behind
    ahead = "one message" if behind == 1 else f"{behind} messages"
    return f"Accepted and waiting behind {ahead}" if behind else "Accepted; its turn begins next"


def _running(facts: TraceFacts) -> str:
    if any(asked.decided_at is None for asked in facts.approvals):
        return "In its turn, which waits for a person to approve a tool call"
    runs = {run.id: run for run in facts.runs}
    run = runs.get(facts.turn.node or "") if facts.turn is not None else None
    if facts.is_claimed and (run is None or run.ended_at is None):
        return "In its turn now"
    if facts.nodes_alive:
        return "In a turn whose process is gone; another one resumes it"
    return "In a turn whose process is gone; it resumes when `holdfast up` runs again"


def _reply_words(facts: TraceFacts) -> str:
    own = [reply for reply in facts.replies if reply.channel != "agent"]
    if not own:
        return "and the reply is on record"
    last = own[-1]
    if last.channel in PULLED:
        return "and the reply can be fetched"
    words = {
        "pending": f"and the reply waits to be sent over {last.channel}",
        "attempting": f"and the reply is being sent over {last.channel}",
        "delivered": f"and the reply reached {last.channel}",
        "uncertain": f"and nobody can say whether {last.channel} has the reply once, twice or not at all",
        "failed": f"but {last.channel} did not take the reply",
    }
    if last.decided_by is None:
        return words[last.state]
    if last.state == "delivered":
        return f"and {last.decided_by} said that the reply reached {last.channel}"
    return f"{words[last.state]}, and {last.decided_by} gave it up"


def _kept(deliveries: Sequence[TracedSend]) -> str:
    """How many providers have the turn, and which do not."""
    newest = {sent.view.provider: sent.view for sent in deliveries if not sent.view.op.startswith("retract")}
    if not newest:
        return ""
    done = [one for one in newest.values() if one.state in {"delivered", "retracted", "dropped"}]
    others = [f"{one.provider} {_state(one)}" for one in newest.values() if one not in done]
    told = f" {len(done)} of {len(newest)} memory providers have it"
    return f"{told}: {', '.join(others)}." if others else f"{told}."


def _state(view: DeliveryView) -> str:
    return view.state if view.decided_by is None else f"given up by {view.decided_by}"
