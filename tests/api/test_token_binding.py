"""A token speaks for one sender, for some chats, or for every sender; the names in the token alone decide."""

import pytest

from holdfast.api.auth.access_token import (
    CHATS_MAX,
    SENDER_CHARS_MAX,
    UNSAID,
    AccessToken,
    Binding,
    Scope,
    make_binding,
    unconfirmed_text,
)
from holdfast.kernel.errors import BindingRequired, InvalidInput, InvalidName, TokenBound
from holdfast.kernel.ids import TokenId

ADA = Binding(sender="ada", chats=frozenset({"family"}))
ROOMS = Binding(chats=frozenset({"attic", "a:b"}))
RELAY = Binding(relay=True)


def at(chat, channel="http", rest=""):
    return f"agent:main:{channel}:dm:{chat}{rest}"


@pytest.mark.parametrize(
    ("binding", "allowed", "refused"),
    [
        (ADA, ["ada", "ada/", "ada/x/y", "family"], ["", "Ada", "adab", "ad", "bob", "bob/ada", "family/x", "/ada"]),
        (ROOMS, ["attic", "a:b"], ["attic/x", "a", "Attic", "cellar"]),
        (RELAY, ["anything"], []),
        (UNSAID, ["anything"], []),
    ],
)
def test_the_name_of_a_chat_decides(binding, allowed, refused):
    assert all(binding.allows(chat) and binding.check_chat(chat) == chat for chat in allowed)
    assert not any(binding.allows(chat) for chat in refused)
    for chat in refused:
        with pytest.raises(TokenBound):
            binding.check_chat(chat)


@pytest.mark.parametrize(
    ("address", "held"),
    [
        (at("ada"), True),
        (at("ada%2Fx", "openai"), True),
        (at("family"), True),
        (at("bob"), False),
        (at("ada", "telegram"), False),
        (at("ada", "agent"), False),
        (at("ada", rest=":thread"), False),
        (at("ada", rest="::user"), False),
        (None, False),
    ],
)
def test_the_chats_of_platforms_and_threads_are_no_tokens(address, held):
    assert ADA.holds(address) is held
    assert RELAY.holds(address)


def test_a_bound_token_speaks_as_its_sender_or_as_its_chat():
    assert [ADA.speaker(named, "family") for named in (None, "ada")] == ["ada", "ada"]
    assert [ROOMS.speaker(named, "a:b") for named in (None, "a%3Ab")] == ["a%3Ab", "a%3Ab"]
    assert [RELAY.speaker(None, "x"), RELAY.speaker("bob", "x")] == ["x", "bob"]
    for binding, sender in ((ADA, "bob"), (ADA, "family"), (ROOMS, "ada"), (ROOMS, "a:b")):
        with pytest.raises(TokenBound):
            binding.speaker(sender, "a:b")
    for binding in (ADA, RELAY):
        with pytest.raises(InvalidName):
            binding.speaker("", "x")


def test_where_a_request_without_a_chat_goes():
    assert ADA.usual_chat("token-1") == "ada"
    assert ADA.new_chat("response-1") == "ada/response-1"
    assert ADA.allows(ADA.new_chat("response-1"))
    assert Binding(chats=frozenset({"attic"})).usual_chat("token-1") == "attic"
    assert [one.usual_chat("token-1") for one in (RELAY, UNSAID)] == ["token-1", "token-1"]
    assert RELAY.new_chat("response-1") == "response-1"
    with pytest.raises(TokenBound):
        ROOMS.usual_chat("token-1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"sender": ""},
        {"sender": "a\nb"},
        {"sender": "ada/x"},
        {"sender": "a" * (SENDER_CHARS_MAX + 1)},
        {"chats": frozenset({""})},
        {"chats": frozenset({"a\nb"})},
        {"chats": frozenset(str(n) for n in range(CHATS_MAX + 1))},
        {"sender": "ada", "relay": True},
        {"chats": frozenset({"attic"}), "relay": True},
    ],
    ids=[
        "no-name",
        "two-lines",
        "a-path",
        "too-long",
        "no-chat",
        "a-line-break",
        "too-many",
        "both",
        "chats-and-relay",
    ],
)
def test_a_binding_that_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidInput):
        Binding(**wrong)


def make(*scopes, sender=None, chats=(), relay=False):
    held = frozenset(scopes)
    return make_binding(
        sender=sender,
        chats=chats,
        relay=relay,
        sends=bool(held & {Scope.SEND, Scope.ADMIN}),
        is_admin=Scope.ADMIN in held,
    )


def test_a_new_token_that_sends_says_for_whom():
    for scopes in ([Scope.SEND], [Scope.SEND, Scope.READ], [Scope.SEND, Scope.OPERATE]):
        with pytest.raises(BindingRequired) as refused:
            make(*scopes)
        assert all(choice in refused.value.hint for choice in ("--sender", "--chat", "--relay"))
        assert make(*scopes, sender="ada").sender == "ada"
        assert make(*scopes, chats=["attic"]).chats == {"attic"}
        assert make(*scopes, relay=True).relay
    assert [make(scope) for scope in (Scope.READ, Scope.OPERATE, Scope.ADMIN)] == [UNSAID] * 3
    assert make(Scope.READ, sender="ada").sender == "ada"
    with pytest.raises(InvalidInput):
        make(Scope.READ, relay=True)
    with pytest.raises(InvalidInput):
        make(Scope.ADMIN, sender="ada")


def token(*scopes, binding=UNSAID):
    return AccessToken(id=TokenId("t"), scopes=frozenset(scopes), binding=binding)


def test_what_an_old_token_is():
    assert token(Scope.SEND).is_unconfirmed
    assert not any(
        one.is_unconfirmed for one in (token(Scope.READ), token(Scope.ADMIN), token(Scope.SEND, binding=RELAY))
    )
    assert not token(Scope.SEND, binding=ADA).is_unconfirmed
    assert "holdfast token revoke t" in unconfirmed_text("t", "web")
    with pytest.raises(InvalidInput):
        token(Scope.ADMIN, binding=ADA)


def test_a_token_that_sends_finds_by_id_what_it_sent_and_what_no_token_sent():
    for one in (token(Scope.SEND), token(Scope.SEND, Scope.READ, binding=RELAY)):
        assert [one.finds(sent_with) for sent_with in ("t", "", "another")] == [True, True, False]
    for one in (token(Scope.READ), token(Scope.SEND, Scope.OPERATE), token(Scope.ADMIN)):
        assert one.finds("another")
