"""Approvals: a tool call that waits for a human.

Rule 1: a dangerous call is journaled as started only after an authorised person has approved it. The store checks this
        in the transaction that journals the start.
Rule 2: waiting is a phase of the turn that holds no claim (D9). The turn resumes when the approval is decided, the turn
        is stopped, the approval is overdue or, where arrivals interrupt, other mail arrives.
Rule 3: the call that was approved is the call that runs. The digest of the call is stored with the question, named by
        the decision, and compared with the call in the transaction that journals its start (turns/call_view.py). A
        question that omits part of the arguments names no digest: to approve the call, a person names the digest that
        only the full view shows.
Rule 4: deciding in the chat is a command right (command_rights.py). A program never has it: an agent that could send
        `/approve` to another agent would bypass every human.
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
ID_BITS = 40  # random bits per id
IDS_OFFERED = 4  # the store uses the first of these ids that is free
REASON_CHARS_MAX = 500
EVERY_TOOL = "*"


class Decision(Enum):
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"  # the deadline passed without a decision
    VOID = "void"  # the turn ended first


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval that an awaiting turn waits for."""

    id: ApprovalId
    tool: str
    call: str
    decision: Decision | None
    decided_by: str = ""
    reason: str = ""  # the reason for a denial
    digest: str = ""  # the digest of the call in the question
    salt: bytes = b""  # the salt of the digest
    is_due: bool = False  # the deadline has passed, by the store's clock
    is_superseded: bool = False  # other mail arrived, and arrivals interrupt

    @property
    def is_open(self) -> bool:
        return self.decision is None and not self.is_due and not self.is_superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsk:
    """A question to a human, stored with the step that makes the turn wait."""

    ids: tuple[ApprovalId, ...]
    call: ToolCall
    reply: ReplyId
    wait_ms: int
    approvers: frozenset[str] = frozenset()
    yields: bool = False  # mail that arrives during the wait ends the turn
    hint: str = ""  # a note about commands on the channel of the question
    salt: bytes = b""  # the salt of the digest

    @property
    def digest(self) -> str:
        return call_digest(self.call.name, self.call.arguments, self.salt)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """The approval that blocks a message: its turn, or a turn ahead of it, waits for a human."""

    id: ApprovalId
    tool: str
    text: str  # the question as sent to the chat
    due_at: Instant
    cut: bool = False  # the text omits part of the arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """An approval as an operator sees it. The arguments are read from the journal, because they are people's words."""

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
    digest: str = ""  # empty after the words were forgotten
    salt: bytes = b""
    cut: bool = False  # the question in the chat omitted part of the arguments


class Proof(Enum):
    """The result of comparing a decision's digest with the digest of the question."""

    HOLDS = "holds"
    CHANGED = "approval_changed"
    MISSING = "approval_digest_needed"


def approval_id(chance: int) -> ApprovalId:
    """An id that is short, hard to guess and easy to type. The caller draws `chance`."""
    digits = []
    for _ in range(ID_CHARS):
        chance, digit = divmod(chance, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return ApprovalId("".join(digits))


def typed_id(text: str) -> ApprovalId:
    """The id in canonical form; the input may differ in case or carry quotation marks."""
    return ApprovalId(text.strip("`'\"<>").upper())


def decided_in(text: str) -> ApprovalId | None:
    """The id in an `/approve` or `/deny` command; None for any other text."""
    command = parse_command(text)
    if command is None or command.verb not in {CommandVerb.APPROVE, CommandVerb.DENY} or not command.argument:
        return None
    return typed_id(command.argument.partition(" ")[0])


def needs_approval(policy: ApprovalPolicy, name: str, *, dangerous: bool) -> bool:
    return dangerous or name in policy.tools or EVERY_TOOL in policy.tools


def check_proof(typed: str, digest: str, *, cut: bool) -> Proof:
    """Whether a decision is valid: a digest, if named, must match, and a cut question requires one."""
    if typed:
        return Proof.HOLDS if is_digest(typed, digest) else Proof.CHANGED
    return Proof.MISSING if cut else Proof.HOLDS


# --- what people are told ------------------------------------------------------------------------


def asked_text(agent: str, ask: ApprovalAsk, id: ApprovalId) -> str:
    """The question for the chat. It states how much it omits and where the full call is shown."""
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
    """The reason for rejecting a decision with a wrong or missing digest."""
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
