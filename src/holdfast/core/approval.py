"""Approvals: a tool call that waits for a human.

Rule 1: a dangerous call is journaled as started only after somebody who may has said yes; the store checks it in the
        transaction that journals the start.
Rule 2: waiting is a phase of the turn that holds no claim (D9). The turn goes on when it is decided, stopped, overdue,
        or, where arrivals interrupt, when other mail came.
Rule 3: who decides in the chat is a command right (command_rights.py). A program never does: an agent that could say
        `/approve` to another would be nobody's approval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.core.command import Verb, parse_command
from holdfast.core.ids import AgentName, ApprovalId, Instant, MailboxId, Principal, ReplyId, SessionId
from holdfast.core.journal import ToolCall
from holdfast.core.policy import ApprovalPolicy

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # no 0 and O, no 1, I and L
ID_CHARS = 6  # 887 million ids; only open ones can be decided, and only from their own chat
ID_BITS = 40  # of chance that go into one
IDS_OFFERED = 4  # an id may be taken; the store uses the first that is not
ARGUMENTS_CHARS_MAX = 600  # of what a person is shown
REASON_CHARS_MAX = 500
EVERY_TOOL = "*"


class Decision(Enum):
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"  # nobody decided in time
    VOID = "void"  # the turn ended first


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What an awaiting turn waits for."""

    id: ApprovalId
    tool: str
    call: str
    decision: Decision | None
    decided_by: str = ""
    reason: str = ""  # of a denial
    is_due: bool = False  # nobody decided in time, by the store's clock
    is_superseded: bool = False  # other mail came, and arrivals interrupt

    @property
    def is_open(self) -> bool:
        return self.decision is None and not self.is_due and not self.is_superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsk:
    """A question to a human, made durable with the step that makes the turn wait."""

    ids: tuple[ApprovalId, ...]
    call: ToolCall
    reply: ReplyId
    wait_ms: int
    approvers: frozenset[str] = frozenset()
    yields: bool = False  # mail that comes meanwhile ends the turn
    hint: str = ""  # what to know about commands where it is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """What a message waits for that is in a turn, or behind one, that waits for a human."""

    id: ApprovalId
    tool: str
    text: str  # as it was asked in the chat
    due_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """An approval as an operator sees it. The arguments are read from the journal: they are people's words."""

    id: ApprovalId
    agent: AgentName
    session: SessionId
    turn: int
    tool: str
    arguments: str
    mailbox: MailboxId
    address: str
    principal: Principal
    asked_at: Instant
    due_at: Instant
    decision: Decision | None = None
    decided_at: Instant | None = None
    decided_by: str | None = None


def approval_id(chance: int) -> ApprovalId:
    """Short, hard to guess and easy to type; `chance` is drawn by the caller."""
    digits = []
    for _ in range(ID_CHARS):
        chance, digit = divmod(chance, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return ApprovalId("".join(digits))


def typed_id(text: str) -> ApprovalId:
    """The id that a person meant: in whatever case, perhaps with its quotation marks."""
    return ApprovalId(text.strip("`'\"<>").upper())


def decided_in(text: str) -> ApprovalId | None:
    """The approval that a text names to decide it; None when it is no such command."""
    command = parse_command(text)
    if command is None or command.verb not in {Verb.APPROVE, Verb.DENY} or not command.argument:
        return None
    return typed_id(command.argument.partition(" ")[0])


def needs_approval(policy: ApprovalPolicy, name: str, *, dangerous: bool) -> bool:
    return dangerous or name in policy.tools or EVERY_TOOL in policy.tools


# --- what people are told ------------------------------------------------------------------------


def shown_arguments(arguments: str) -> str:
    """What a human is to judge: on one line, with whatever they could not see or would see elsewhere spelt out."""
    text = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in " ".join(arguments.split()))
    return text if len(text) <= ARGUMENTS_CHARS_MAX else f"{text[:ARGUMENTS_CHARS_MAX]}… ({len(text)} characters)"


def asked_text(agent: str, call: ToolCall, id: ApprovalId, hint: str = "") -> str:
    wish = f"{agent} wants to use {call.name}: {shown_arguments(call.arguments)}"
    return f"{wish}\nAnswer /approve {id} or /deny {id}.{hint and f' {hint}'}"


def not_found_text(id: str, open_ids: Sequence[str]) -> str:
    here = f" Open here: {', '.join(open_ids)}." if open_ids else " Nothing waits for an approval here."
    return (
        f"There is no approval {id[:40]!r} in this chat.{here}" if id else f"Say which: /approve ID or /deny ID.{here}"
    )


def decided_text(id: str, tool: str, decision: Decision) -> str:
    match decision:
        case Decision.APPROVED:
            return f"Approved: {tool} ({id}) runs once."
        case Decision.DENIED:
            return f"Denied: {tool} ({id}) is not run."
        case _:
            return already_text(id, tool, decision)


def already_text(id: str, tool: str, decision: Decision) -> str:
    match decision:
        case Decision.EXPIRED:
            return f"{id} ({tool}) ran out of time; it was not run."
        case Decision.VOID:
            return f"{id} ({tool}) is over: its turn has ended."
        case _:
            return f"{id} ({tool}) was {decision.value} already."


# --- what the model is told ----------------------------------------------------------------------


def refused_text(approval: Approval) -> str:
    if approval.decision is not Decision.DENIED:
        return "This call was not run: nobody approved it in time. Do not repeat it unless you are asked to."
    why = f' They said: "{approval.reason}".' if approval.reason else ""
    return f"This call was not run: a person denied it.{why} Do not repeat it unless you are asked to."
