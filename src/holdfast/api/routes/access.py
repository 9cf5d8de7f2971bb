"""The routes of access control: pairing requests of strangers, links between accounts of a person, moved addresses.

All of them need the scope `admin`. A token that names agents decides the pairing requests of those agents only. Links
and moves are refused for it, because a person's identity concerns every agent.
"""

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import Endpoint, Settings, answer, caller_of
from holdfast.api.request import QueryParameters, decode, read_body
from holdfast.api.shapes import access as shapes
from holdfast.audit.action import Act
from holdfast.inbox.address import agent_name

PAIRS_QUERY = {"agent": "only those who asked this agent"}
BODY_ERRORS = (400, 404, 408, 409, 413, 503)


def _by(request: Request) -> str:
    return f"token:{caller_of(request).token.id}"


async def get_pairs(request: Request, settings: Settings) -> Response:
    agent = QueryParameters(request, PAIRS_QUERY).text("agent")
    wanted = None if agent is None else agent_name(agent)
    return answer(shapes.pairs_view(await settings.service.access.pairs(agent=wanted)))


async def post_pair(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    said = decode(await read_body(request, settings.body_bytes_max), shapes.PairDecision)
    code = request.path_params["code"]
    found = await settings.service.access.pair(code, admit=said.decision == "admit", by=_by(request))
    return answer(shapes.pair_view(found))


async def post_unpair(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    wish = decode(await read_body(request, settings.body_bytes_max), shapes.UnpairWish)
    gone = await settings.service.access.unpair(wish.principal, agent=wish.agent, by=_by(request))
    return answer(shapes.UnpairedOut(principal=wish.principal, agents=list(gone)))


async def get_links(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    return answer(shapes.links_view(await settings.service.access.links()))


async def post_link(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    wish = decode(await read_body(request, settings.body_bytes_max), shapes.LinkWish)
    return answer(shapes.link_view(await settings.service.access.link(wish.principal, wish.person, by=_by(request))))


async def post_unlink(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    wish = decode(await read_body(request, settings.body_bytes_max), shapes.UnlinkWish)
    gone = await settings.service.access.unlink(wish.principal, by=_by(request))
    return answer(shapes.UnlinkedOut(principal=wish.principal, link=None if gone is None else shapes.link_view(gone)))


async def post_move(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    wish = decode(await read_body(request, settings.body_bytes_max), shapes.MoveWish)
    return answer(shapes.moved_view(await settings.service.access.move(wish.old, wish.new, by=_by(request))))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/pairs",
        handler=get_pairs,
        scope=Scope.ADMIN,
        summary="Pairing requests of strangers and the decisions about them, newest first",
        query=PAIRS_QUERY,
        answers={200: shapes.PairsOut},
        errors=(400,),
    ),
    Endpoint(
        method="POST",
        path="/v1/pairs/{code}",
        act=Act.ACCESS_ADMITTED,
        handler=post_pair,
        scope=Scope.ADMIN,
        summary="Admit or reject a stranger; an admitted stranger is notified",
        body=shapes.PairDecision,
        answers={200: shapes.PairOut},
        errors=BODY_ERRORS,
    ),
    Endpoint(
        method="POST",
        path="/v1/unpair",
        act=Act.ACCESS_WITHDRAWN,
        handler=post_unpair,
        scope=Scope.ADMIN,
        summary="Revoke the decision about a principal; they may request access again",
        body=shapes.UnpairWish,
        answers={200: shapes.UnpairedOut},
        errors=BODY_ERRORS,
    ),
    Endpoint(
        method="GET",
        path="/v1/links",
        handler=get_links,
        scope=Scope.ADMIN,
        summary="Links between accounts and persons",
        answers={200: shapes.LinksOut},
        errors=(400,),
    ),
    Endpoint(
        method="POST",
        path="/v1/links",
        act=Act.IDENTITY_LINKED,
        handler=post_link,
        scope=Scope.ADMIN,
        summary="Link an account to a person; 409 if the link would make an identity ambiguous",
        body=shapes.LinkWish,
        answers={200: shapes.LinkOut},
        errors=BODY_ERRORS,
    ),
    Endpoint(
        method="POST",
        path="/v1/unlink",
        act=Act.IDENTITY_UNLINKED,
        handler=post_unlink,
        scope=Scope.ADMIN,
        summary="Remove a link",
        body=shapes.UnlinkWish,
        answers={200: shapes.UnlinkedOut},
        errors=BODY_ERRORS,
    ),
    Endpoint(
        method="POST",
        path="/v1/addresses/move",
        act=Act.ADDRESS_MOVED,
        handler=post_move,
        scope=Scope.ADMIN,
        summary="Make a new address lead to the mailbox of an older one; 409 if the new address has its own history",
        body=shapes.MoveWish,
        answers={200: shapes.MovedOut},
        errors=BODY_ERRORS,
    ),
)
