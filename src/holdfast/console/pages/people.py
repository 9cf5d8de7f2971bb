"""People and access: who asked to be let in, which accounts are one person, and which tokens and logins there are.

The page needs the scope `admin`, as the routes that it leads to.
"""

from collections.abc import Mapping, Sequence

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.auth.access_token_sql import list_logins, list_tokens
from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.inbox.access import Pairing, PairingView, read_code, spelt
from holdfast.inbox.access_sql import list_pairings
from holdfast.inbox.identity import Link
from holdfast.inbox.identity_sql import list_links
from holdfast.kernel.errors import PairingNotFound
from holdfast.kernel.ids import Instant, Principal

TEXT = {"type": "string", "maxLength": 500}
SHOWN_MAX = 200
OF_PAIR = {"decision": Param("admit or deny", TEXT, default="admit")}
OF_ACCOUNT = {
    "principal": Param("the account", TEXT, default=""),
    "agent": Param("only at this agent", TEXT, default=""),
}


@page("/console/people", scope=Scope.ADMIN)
async def get_people(asked: Asked) -> PageView:
    """Who has access, and who asks for it."""
    pairs = await asked.read(list_pairings(limit=SHOWN_MAX))
    links = await asked.read(list_links(limit=SHOWN_MAX))
    tokens = await asked.read(list_tokens(limit=SHOWN_MAX))
    logins = await asked.read(list_logins(limit=SHOWN_MAX))
    now = asked.status.at
    return PageView(
        "people.html",
        "People",
        {
            "asking": [one for one in pairs if one.state is Pairing.ASKING],
            "decided": [one for one in pairs if one.state is not Pairing.ASKING],
            "persons": _persons(links),
            "tokens": [(one, _state(one, now)) for one in tokens],
            "logins": [one for one in logins if one.end(now) is None],
            "spelt": spelt,
            "shown_max": SHOWN_MAX,
        },
    )


def _persons(links: Sequence[Link]) -> Mapping[str, Sequence[Link]]:
    """The accounts of each person."""
    found: dict[str, list[Link]] = {}
    for link in links:
        found.setdefault(link.person, []).append(link)
    return found


def _state(token: AccessToken, now: Instant) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.has_expired(now) else "valid"


@page("/console/people/pair/{code}", query=OF_PAIR, scope=Scope.ADMIN)
async def get_pair(asked: Asked) -> PageView:
    """What admitting or rejecting a stranger would do."""
    code = read_code(asked.call.request.path_params["code"])
    pairs = await asked.read(list_pairings(limit=1_000))
    one = next((pair for pair in pairs if pair.code == code), None)
    if one is None:
        raise PairingNotFound(f"there is no request {spelt(code)}")
    return PageView(
        "pair.html", "Access", {"one": one, "code": spelt(code), "admits": asked.query["decision"] != "deny"}
    )


@page("/console/people/unpair", query=OF_ACCOUNT, scope=Scope.ADMIN)
async def get_unpair(asked: Asked) -> PageView:
    """What withdrawing a decision about a person would do."""
    who, agent = Principal(asked.query["principal"]), asked.query["agent"]
    pairs = await asked.read(list_pairings(limit=1_000))
    found = [one for one in pairs if one.principal == who and agent in {"", one.agent} and _is_decided(one)]
    return PageView(
        "unpair.html", "Access", {"who": who, "agents": sorted({one.agent for one in found}), "agent": agent}
    )


def _is_decided(one: PairingView) -> bool:
    return one.state in {Pairing.ADMITTED, Pairing.DENIED}


@page("/console/people/unlink", query=OF_ACCOUNT, scope=Scope.ADMIN)
async def get_unlink(asked: Asked) -> PageView:
    """What removing a link would do."""
    who = asked.query["principal"]
    links = await asked.read(list_links(limit=10_000))
    return PageView(
        "unlink.html", "Links", {"who": who, "link": next((one for one in links if one.principal == who), None)}
    )
