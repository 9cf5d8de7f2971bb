"""The fake server does what the real one was measured to do (3.0.12, SDK 2.7.0), its bad habits included."""

import pytest
from honcho import Honcho, Session  # type: ignore[import-untyped]
from honcho.api_types import MessageCreateParams  # type: ignore[import-untyped]
from honcho.http import exceptions  # type: ignore[import-untyped]

from tests.support.honcho_server import HonchoServer


@pytest.fixture
def running():
    with HonchoServer() as server:
        yield server


@pytest.fixture
def client(running):
    made = Honcho(base_url=running.url, workspace_id="holdfast", max_retries=0)
    yield made
    made._http.close()


def say(content="hello", **more):
    return MessageCreateParams(content=content, peer_id="ada", **more)


def test_a_session_is_made_by_its_first_message_or_by_name(running, client):
    session = Session("a", client)
    assert list(session.messages()) == []
    assert running.sessions() == []
    session.add_messages([say()])
    client.session("b")
    assert running.sessions() == ["a", "b"]
    assert running.made_empty == ["b"]


def test_the_same_message_twice_is_two_rows(running, client):
    for _ in range(2):
        Session("a", client).add_messages([say(metadata={"turn_id": "t"})])
    assert len(list(Session("a", client).messages(filters={"metadata": {"turn_id": "t"}}))) == 2


def test_the_retries_of_the_sdk_double_a_message_whose_answer_was_lost(running):
    """Why the provider turns them off."""
    client = Honcho(base_url=running.url, workspace_id="holdfast", max_retries=2)
    running.fail_next("drop_after", path="/messages$")
    Session("a", client).add_messages([say()])
    assert len(running.messages("a")) == 2
    client._http.close()


def test_a_batch_is_one_transaction_of_1_to_100_messages(running, client):
    for batch in ([], [say()] * 101, [say(), say("x" * 25_001)], [say(), say("<|endoftext|>")]):
        with pytest.raises(exceptions.UnprocessableEntityError):
            Session("a", client).add_messages(batch)
    assert running.messages() == []
    Session("a", client).add_messages([say("x" * 25_000)] * 100)
    assert len(running.messages()) == 100


def test_a_refusal_repeats_the_words_that_it_refused(running, client):
    with pytest.raises(exceptions.UnprocessableEntityError, match="secret"):
        Session("a", client).add_messages([say("secret <|endoftext|>")])


def test_nul_is_stripped_and_a_lone_surrogate_never_leaves_the_sdk(running, client):
    Session("a", client).add_messages([say("a\0b")])
    assert running.messages()[0]["content"] == "ab"
    with pytest.raises(exceptions.ConnectionError) as raised:
        Session("a", client)._honcho._http.post("/v3/workspaces/holdfast/sessions/a/messages", body={"x": "\ud800"})
    assert raised.value.status == 0


@pytest.mark.parametrize("name", ["a b", "a:b", "x" * 513])
def test_an_id_that_does_not_fit_the_pattern_is_refused(client, name):
    with pytest.raises(exceptions.UnprocessableEntityError):
        client.session(name)


def test_lists_are_filtered_by_metadata_and_paged(client):
    session = Session("a", client)
    session.add_messages([say(f"m{n}", metadata={"n": n, "even": n % 2 == 0}) for n in range(70)])
    assert len(list(session.messages())) == 70
    assert session.messages().pages == 2

    def names(**filters):
        return [message.content for message in session.messages(filters=filters)]

    assert names(metadata={"n": 3}) == ["m3"]
    assert names(metadata={"n": {"in": [1, 2]}}) == ["m1", "m2"]
    assert names(metadata={"n": {"gte": 68}}) == ["m68", "m69"]
    assert names(OR=[{"metadata": {"n": 1}}, {"metadata": {"n": 9}}]) == ["m1", "m9"]
    with pytest.raises(exceptions.UnprocessableEntityError):
        names(colour="red")
    assert session.messages(reverse=True).items[0].content == "m69"


def test_only_the_metadata_of_a_message_can_be_changed(running, client):
    [message] = Session("a", client).add_messages([say()])
    Session("a", client).update_message(message, {"x": 1})
    assert (running.messages()[0]["content"], running.messages()[0]["metadata"]) == ("hello", {"x": 1})


def test_deleting_takes_effect_when_the_deriver_runs(running, client):
    session = Session("a", client)
    session.add_messages([say()])
    session.delete()
    assert len(list(session.messages())) == 1
    for call in (session.delete, lambda: session.add_messages([say()])):
        with pytest.raises(exceptions.NotFoundError):
            call()
    running.run_deriver()
    assert list(session.messages()) == []
    with pytest.raises(exceptions.NotFoundError):
        session.add_messages([say()])
    running.expire_cache()
    session.add_messages([say()])


def test_a_workspace_with_sessions_cannot_be_deleted(client):
    client.session("a")
    with pytest.raises(exceptions.ConflictError):
        client.delete_workspace("holdfast")


def test_a_conclusion_needs_its_peers_and_may_be_there_twice(running, client):
    with pytest.raises(exceptions.NotFoundError):
        client.peer("agent").conclusions_of("ada").create([{"content": "x"}])
    client.peer("ada")
    view = client.peer("agent").conclusions_of("ada")
    for _ in range(2):
        view.create([{"content": "likes tea"}])
    assert [conclusion.content for conclusion in view.query("tea")] == ["likes tea"] * 2
    view.delete(view.list().items[0].id)
    assert len(running.conclusions()) == 1
    assert client.peer("ada").representation() == "likes tea"


def test_derivation_happens_later_or_never(running, client):
    Session("a", client).add_messages([say("one")])
    running.lose_derivation = True
    Session("a", client).add_messages([say("two")])
    running.run_deriver()
    assert [row["content"] for row in running.conclusions()] == ["said: one"]


def test_metadata_of_a_session_is_replaced(client):
    client.session("a", metadata={"x": 1, "y": 2})
    assert client.session("a", metadata={"x": 3}).metadata == {"x": 3}


@pytest.mark.parametrize(("key", "detail"), [("", "No access token"), ("wrong", "Invalid JWT"), ("b", "Unauthorized")])
def test_every_refused_key_is_a_401(running, key, detail):
    running.key, running.workspace_keys = "sesame", {"b": "other"}
    client = Honcho(base_url=running.url, workspace_id="holdfast", api_key=key or None, max_retries=0)
    with pytest.raises(exceptions.AuthenticationError, match=detail):
        client.peer("ada")
    client._http.close()


def test_a_wish_to_slow_down_reaches_the_sdk(running, client):
    running.fail_next("status", status=429, headers={"retry_after": "7"})
    with pytest.raises(exceptions.RateLimitError) as raised:
        client.peer("ada")
    assert raised.value.retry_after == 7.0


def test_health_is_well_while_the_database_is_down(running, client):
    running.database_down = True
    with pytest.raises(exceptions.ServerError):
        client.peer("ada")
    assert client._http.get("/health") == {"status": "ok"}
