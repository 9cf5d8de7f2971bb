"""The routes of administration: pairing requests, links between accounts, moved addresses, the audit trail.

All of them need the scope `admin`. A token that names agents decides the pairing requests of those agents only. Links,
moves and the audit trail are refused for it: a person's identity, and most acts, concern every agent.
"""

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import HttpCall, Param, route
from holdfast.api.shapes import administration as shapes
from holdfast.audit.action import BY_NAME, Act, ActionFilter, act_named
from holdfast.audit.action_sql import list_actions
from holdfast.inbox.identity import Link, Moved
from holdfast.kernel.ids import Instant

ACTIONS: dict[str, str | Param] = {
    "actor": Param(
        "only what this actor did: a token's id, `operator`, a principal or a user of the machine", default=""
    ),
    "verb": Param("only acts of this kind", {"type": "string", "enum": sorted(BY_NAME)}, parse=act_named),
    "subject": Param("only what was done to this: an id, as a row shows it", default=""),
    "since": Param("only from this time on, in milliseconds", {"type": "integer", "minimum": 0}, default=0),
    "after": Param("`next` of the page before", {"type": "integer", "minimum": 0}, default=0),
    "limit": Param("how many at most", {"type": "integer", "minimum": 1, "maximum": 1_000}, default=100),
}


def _by(call: HttpCall) -> str:
    return f"token:{call.caller.token.id}"


@route("GET /v1/pairs", Scope.ADMIN, query={"agent": "only those who asked this agent"})
async def get_pairs(call: HttpCall) -> shapes.PairsOut:
    """Pairing requests of strangers and the decisions about them, newest first."""
    return shapes.pairs_view(await call.viewer.overview("access").pairs(**call.query))


@route("POST /v1/pairs/{code}", Scope.ADMIN, body=shapes.PairDecision, act=Act.ACCESS_ADMITTED, errors=(409,))
async def post_pair(call: HttpCall) -> shapes.PairOut:
    """Admit or reject a stranger; an admitted stranger is notified."""
    code, admit = call.request.path_params["code"], call.body.decision == "admit"
    return shapes.pair_view(await call.viewer.overview("access").pair(code, admit=admit))


@route("POST /v1/unpair", Scope.ADMIN, body=shapes.UnpairWish, act=Act.ACCESS_WITHDRAWN, errors=(404, 409))
async def post_unpair(call: HttpCall) -> shapes.UnpairedOut:
    """Revoke the decision about a principal; they may request access again."""
    wish: shapes.UnpairWish = call.body
    gone = await call.viewer.overview("access").unpair(wish.principal, agent=wish.agent)
    return shapes.UnpairedOut(principal=wish.principal, agents=list(gone))


@route("GET /v1/links", Scope.ADMIN)
async def get_links(call: HttpCall) -> shapes.LinksOut:
    """Links between accounts and persons."""
    return shapes.LinksOut(links=list(await call.viewer.whole("links").access.links()))


@route("POST /v1/links", Scope.ADMIN, body=shapes.LinkWish, act=Act.IDENTITY_LINKED, errors=(404, 409))
async def post_link(call: HttpCall) -> Link:
    """Link an account to a person; 409 if the link would make an identity ambiguous."""
    wish: shapes.LinkWish = call.body
    return await call.viewer.whole("link").access.link(wish.principal, wish.person, by=_by(call))


@route("POST /v1/unlink", Scope.ADMIN, body=shapes.UnlinkWish, act=Act.IDENTITY_UNLINKED, errors=(404, 409))
async def post_unlink(call: HttpCall) -> shapes.UnlinkedOut:
    """Remove a link."""
    wish: shapes.UnlinkWish = call.body
    gone = await call.viewer.whole("unlink").access.unlink(wish.principal, by=_by(call))
    return shapes.UnlinkedOut(principal=wish.principal, link=gone)


@route("POST /v1/addresses/move", Scope.ADMIN, body=shapes.MoveWish, act=Act.ADDRESS_MOVED, errors=(404, 409))
async def post_move(call: HttpCall) -> Moved:
    """Make a new address lead to the mailbox of an older one; 409 if the new address has its own history."""
    wish: shapes.MoveWish = call.body
    return await call.viewer.whole("move").access.move(wish.old, wish.new, by=_by(call))


@route("GET /v1/actions", Scope.ADMIN, query=ACTIONS)
async def get_actions(call: HttpCall) -> shapes.ActionList:
    """The audit trail: actor, act, subject, time and origin, newest first."""
    asked = call.query
    wanted = ActionFilter(
        actor=asked["actor"], act=asked["verb"], subject=asked["subject"], since=Instant(asked["since"])
    )
    listed = list_actions(wanted, after=asked["after"], limit=asked["limit"])
    found = await call.viewer.whole("actions").db.read(listed)
    return shapes.actions_view(found, asked["limit"])
