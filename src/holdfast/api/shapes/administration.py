"""The JSON shapes of administration: pairing requests, links, moved addresses, the audit and the audit trail."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from holdfast.api.shapes.view import Shape, list_of, or_none, page_of, view_of
from holdfast.audit.action import Action, By
from holdfast.inbox.access import PairingView, spelt
from holdfast.inbox.address import PART_CHARS_MAX
from holdfast.inbox.identity import Link
from holdfast.sessions.compression_audit import CheckResult, Contradiction, Report

Part = Annotated[str, Meta(min_length=1, max_length=PART_CHARS_MAX)]


class PairOut(Shape, frozen=True, kw_only=True):
    """A pairing request of a stranger. `name` is the name that the platform shows; it proves nothing."""

    code: str
    agent: str
    channel: str
    principal: str
    name: str
    state: str
    asked_at: int
    decided_at: int | None


class PairsOut(Shape, frozen=True, kw_only=True):
    """Newest first."""

    pairs: list[PairOut]


class PairDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: Literal["admit", "deny"] = "admit"


class UnpairWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Revokes the decision about a principal, at all agents unless one is named."""

    principal: Part
    agent: str | None = None


class UnpairedOut(Shape, frozen=True, kw_only=True):
    principal: str
    agents: list[str]


class LinkWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Links `principal` to `person`."""

    principal: Part
    person: Part


class UnlinkWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    principal: Part


class LinksOut(Shape, frozen=True, kw_only=True):
    """Sorted by person."""

    links: list[Link]


class UnlinkedOut(Shape, frozen=True, kw_only=True):
    """`link` is the removed link; null if there was none."""

    principal: str
    link: Link | None


class MoveWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two addresses, as `agent:<agent>:<channel>:<type>:<chat>`."""

    old: str
    new: str


pair_view: Callable[[PairingView], PairOut] = view_of(PairOut, code=lambda one: spelt(one.code))
pairs_view = list_of(PairsOut, pair_view)


class AuditReport(Shape, frozen=True, kw_only=True):
    ok: bool
    sessions: int
    entries: int
    operations: int
    summaries: int
    log_lines: int | None
    checks: list[CheckResult]
    first_contradiction: Contradiction | None


audit_view: Callable[[Report], AuditReport] = view_of(AuditReport, first_contradiction="first")


class ActionOut(Shape, frozen=True, kw_only=True):
    """One privileged act, or an attempt that was refused with `code`."""

    n: int
    at: int
    verb: str
    actor: By
    subject: str
    outcome: str
    code: str | None
    count: int  # attempts of the actor within the hour of the row; 1 unless refused
    detail: dict[str, Any]  # ids, numbers and codes
    digest: str  # over this row and the digest of the previous one


class ActionList(Shape, frozen=True, kw_only=True):
    """Newest first; `next` is the value of `after` for the next page."""

    actions: list[ActionOut]
    next: int | None


action_view: Callable[[Action], ActionOut] = view_of(
    ActionOut,
    actor="by",
    code=or_none("code"),
    detail=lambda one: dict(one.detail),
    digest=lambda one: one.digest.hex(),
)
actions_view = page_of(ActionList, action_view)
