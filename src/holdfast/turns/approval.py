"""Approvals: a tool call that waits for a human.

Rule 1: a dangerous call is journaled as started only after somebody who may has said yes; the store checks it in the
        transaction that journals the start.
Rule 2: waiting is a phase of the turn that holds no claim (D9). The turn goes on when it is decided, stopped, overdue,
        or, where arrivals interrupt, when other mail came.
Rule 3: what is approved is what runs. The digest of the call is kept when it is asked about, named by the decision, and
        compared with the call that is about to run in the transaction that journals its start (turns/call_view.py).
        A question that leaves out a part of the arguments names no digest: to approve the call, a person names the
        digest that only the full view shows.
Rule 4: who decides in the chat is a command right (command_rights.py). A program never does: an agent that could say
        `/approve` to another would be nobody's approval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.ids import AgentName, ApprovalId, Instant, MailboxId, Principal, ReplyId, SessionId
from holdfast.sessions.command import CommandVerb, parse_command
from holdfast.turns.call_view import call_digest, is_cut, is_digest, short_digest, shown_arguments
from holdfast.turns.journal import ToolCall
from holdfast.turns.policy import ApprovalPolicy

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # no 0 and O, no 1, I and L
ID_CHARS = 6  # 887 million ids; only open ones can be decided, and only from their own chat
ID_BITS = 40  # of chance that go into one
IDS_OFFERED = 4  # an id may be taken; the store uses the first that is not
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
    digest: str = ""  # of the call that was asked about
    salt: bytes = b""  # of the digest
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
    salt: bytes = b""  # of the digest

    @property
    def digest(self) -> str:
        return call_digest(self.call.name, self.call.arguments, self.salt)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """What a message waits for that is in a turn, or behind one, that waits for a human."""

    id: ApprovalId
    tool: str
    text: str  # as it was asked in the chat
    due_at: Instant
    cut: bool = False  # the text leaves out a part of the arguments


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
    digest: str = ""  # empty once the words were forgotten
    salt: bytes = b""
    cut: bool = False  # the question in the chat left out a part of the arguments


class Proof(Enum):
    """How a decision's digest compares with the one that was asked about."""

    HOLDS = "holds"
    CHANGED = "approval_changed"
    MISSING = "approval_digest_needed"


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
    if command is None or command.verb not in {CommandVerb.APPROVE, CommandVerb.DENY} or not command.argument:
        return None
    return typed_id(command.argument.partition(" ")[0])


def needs_approval(policy: ApprovalPolicy, name: str, *, dangerous: bool) -> bool:
    return dangerous or name in policy.tools or EVERY_TOOL in policy.tools


def check_proof(typed: str, digest: str, *, cut: bool) -> Proof:
    """Whether an approval may be taken: a digest that is named must be the right one, and a cut question needs one."""
    if typed:
        return Proof.HOLDS if is_digest(typed, digest) else Proof.CHANGED
    return Proof.MISSING if cut else Proof.HOLDS


# --- what people are told ------------------------------------------------------------------------


def asked_text(agent: str, ask: ApprovalAsk, id: ApprovalId) -> str:
    """The question. What is left out is said, with where all of it is shown."""
    arguments = ask.call.arguments
    told = f"{agent} wants to use `{ask.call.name}`: `{shown_arguments(arguments)}`\n{len(arguments)} characters"
    hint = ask.hint and f" {ask.hint}"
    if not is_cut(arguments):
        return f"{told}, digest {short_digest(ask.digest)}.\nAnswer /approve {id} or /deny {id}.{hint}"
    return (
        f"{told}; this shows the first and the last of them. {full_view_text(id)}\n"
        f"Answer /approve {id} DIGEST, with the digest that is shown there, or /deny {id}.{hint}"
    )


def full_view_text(id: str) -> str:
    return f"All of them: the chat page, `holdfast approvals show {id}` or GET /v1/approvals/{id}."


def proof_text(id: str, proof: Proof) -> str:
    """Why a decision with a wrong digest, or without one, was not taken."""
    if proof is Proof.MISSING:
        return (
            f"Not approved: the question left out a part of what {id} will do. {full_view_text(id)} Then answer "
            f"/approve {id} DIGEST, with the digest that is shown there."
        )
    return f"Not approved: this is not the digest of what {id} will do. Nothing changed. {full_view_text(id)}"


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


def unshowable_text(why: str) -> str:
    return (
        f"This call was not run: a person has to approve it, and cannot be shown what it does, because {why}. "
        "Call the tool with arguments that can be shown, or do without it."
    )
