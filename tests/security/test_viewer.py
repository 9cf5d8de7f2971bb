"""A handler reaches the runtime only through its viewer, and the viewer checks what the token may see.

A new method of the viewer fails the first test until it is in one of the lists; its route goes into
test_token_matrix.py.
"""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import pytest

from holdfast.api.auth.access_token import AccessToken, Binding, Scope
from holdfast.api.auth.overview import Overview
from holdfast.api.auth.viewer import Viewer
from holdfast.api.endpoint import HttpCall, Settings
from holdfast.api.errors import AuthRequired
from holdfast.kernel.errors import MessageNotFound, ScopeRequired, TokenBound
from holdfast.kernel.ids import TokenId
from holdfast.runtime.runtime import Runtime
from holdfast.store.ports import Database

SHOWS_NO_DATA = {"token", "logged_in", "health", "new_message", "linked"}
CHECKS_AGENTS_AND_CHATS = {
    *(
        "agents",
        "default_agent",
        "accept",
        "unanswered",
        "listen",
        "trace",
        "timeline",
        "message",
        "mailbox",
        "conversation",
    ),
    *("attachment", "session", "sessions", "history", "prompt", "begin_compression", "snapshot", "operations"),
    *("recall", "forget", "forget_status", "approvals", "approval", "decide"),
}
REFUSES_BY_ITSELF = {"whole", "overview"}
CHECKS_AGENTS = {
    *("channels", "tool_servers", "spend", "deliveries", "replies", "resend", "pairs", "pair", "unpair"),
    *("now", "status", "components", "messages", "samples", "pauses", "pause", "resume", "repair"),
}
NO_RUNTIME = cast("Any", None)
SCOPES = frozenset({Scope.OPERATE, Scope.SEND})
OF_AN_AGENT = AccessToken(id=TokenId("a"), scopes=SCOPES, agents=frozenset({"ada"}))
OF_A_CHAT = AccessToken(id=TokenId("c"), scopes=SCOPES, binding=Binding(chats=frozenset({"ada"})))
OF_ALL = AccessToken(id=TokenId("r"), scopes=SCOPES, binding=Binding(relay=True))


def public(kind):
    return {name for name in vars(kind) if not name.startswith("_")}


def test_every_method_of_a_viewer_is_in_one_of_the_lists():
    assert public(Viewer) == SHOWS_NO_DATA | CHECKS_AGENTS_AND_CHATS | REFUSES_BY_ITSELF
    assert public(Overview) == CHECKS_AGENTS
    assert not hasattr(Viewer, "__getattr__"), "what a viewer does not define is not forwarded"
    assert not hasattr(Overview, "__getattr__")


@pytest.mark.parametrize("kind", [HttpCall, Settings])
def test_what_a_handler_is_given_is_neither_the_runtime_nor_the_store(kind):
    hints = get_type_hints(kind)
    assert not {hints[one.name] for one in fields(kind)} & {Runtime, Database}


def test_what_concerns_everything_is_for_a_token_of_all_agents_and_chats():
    assert Viewer(NO_RUNTIME, OF_ALL).whole("gauges") is NO_RUNTIME
    with pytest.raises(ScopeRequired):
        Viewer(NO_RUNTIME, OF_AN_AGENT).whole("gauges")
    with pytest.raises(TokenBound):
        Viewer(NO_RUNTIME, OF_A_CHAT).whole("gauges")


def test_what_concerns_all_chats_of_an_agent_is_not_for_a_bound_token():
    assert isinstance(Viewer(NO_RUNTIME, OF_AN_AGENT).overview("replies"), Overview)
    with pytest.raises(TokenBound):
        Viewer(NO_RUNTIME, OF_A_CHAT).overview("replies")


@pytest.mark.parametrize(
    "asked",
    [
        lambda viewer: viewer.whole("gauges"),
        lambda viewer: viewer.overview("replies"),
        lambda viewer: viewer.agents(),
        lambda viewer: viewer.listen(),
    ],
    ids=["whole", "overview", "agents", "listen"],
)
def test_a_route_without_a_token_is_shown_nothing(asked):
    with pytest.raises(AuthRequired):
        asked(Viewer(NO_RUNTIME, None))


async def test_a_request_that_repeats_a_message_of_another_chat_does_not_find_it():
    async def unanswered(*_, **__):
        return "msg_1"

    async def trace(message):
        return SimpleNamespace(message=message, agent="main", address="agent:main:openai:dm:bob", token="")

    runtime = cast("Any", SimpleNamespace(unanswered=unanswered, trace=trace))
    with pytest.raises(MessageNotFound):
        await Viewer(runtime, OF_A_CHAT).unanswered("", "request", agent="main", channel="openai")
    assert await Viewer(runtime, OF_ALL).unanswered("", "request", agent="main", channel="openai") == "msg_1"


@pytest.mark.parametrize("limit", [1, 10])
async def test_a_bound_token_is_listed_the_approvals_of_its_chats_and_a_page_is_filled_with_them(limit):
    chats = ["bob"] * 1_500 + ["ada", "bob", "ada"]
    places = [SimpleNamespace(id=str(n), address=f"agent:main:http:dm:{chat}") for n, chat in enumerate(chats)]

    async def listed(*, limit, **_):
        return places[:limit]

    runtime = cast("Any", SimpleNamespace(approvals=SimpleNamespace(list=listed)))
    found = await Viewer(runtime, OF_A_CHAT).approvals(limit=limit)
    assert [one.id for one in found] == ["1500", "1502"][:limit]
