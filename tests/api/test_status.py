"""The promise: an operator's program reads the status, messages, timelines, samples and processes over HTTP, and a
token for numbers alone is shown no words, names or ids of people.

Rules: R8, R40.
"""

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.api.endpoint import ANY, OPEN
from holdfast.api.routes.table import ENDPOINTS
from holdfast.kernel.ids import Instant, NodeId, TokenId
from holdfast.monitor.sample import HOUR_MS, MINUTE_MS, Sample, SampleSpan
from holdfast.monitor.sample_sql import record_sample
from holdfast.store.node_sql import register_node, retire_node
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.support.fakes import ScriptedModel, calls, happened, says
from tests.support.live import code_of, serve

DANGEROUS = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})))
SECRETS = ("secret-chat", "secret-sender", "Byron")


async def holding(live, number, **more):
    token = AccessToken(id=TokenId(f"t-{number}"), **more)
    await live.runtime.db.write(add_token(token, hash_token(spell_token(number))))
    return {"Authorization": f"Bearer {spell_token(number)}"}


async def read(live, path, headers=None, **query):
    response = await live.client.get(path, params=query, headers=headers or {})
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_status_names_what_needs_a_person_and_what_waits(tmp_path):
    model = ScriptedModel(calls('memory {"action": "read"}'), otherwise=says("hello"))
    async with serve(tmp_path, model=model, listed={"main": DANGEROUS, "idle": DANGEROUS}) as live:
        feed = live.runtime.events()
        said = await live.say("My cat is called Byron.", chat="secret-chat", sender="secret-sender", agent="main")
        await happened(feed, "turn.asked")
        feed.close()
        found = await read(live, "/v1/status")
        (need,) = found["needs"]
        assert (need["urgency"], need["kind"], need["agent"]) == ("needs you", "approval", "main")
        assert "secret-sender" in need["evidence"]
        assert need["command"] == f"holdfast approvals show {need['subject']}"
        assert (found["ok"], found["code"], found["headline"]) == (True, None, ["1 needs you"])
        idle, main = found["agents"]
        assert (idle["agent"], idle["in_turn"], idle["urgency"]) == ("idle", 0, None)
        assert (main["agent"], main["in_turn"], main["running"], main["needs"]) == ("main", 1, 1, 1)
        assert main["urgency"] == "needs you"
        (running,) = found["running"]
        assert (running["message"], running["chat"]) == (said.json()["message"], "secret-chat")


async def test_a_token_for_metrics_reads_numbers_and_states_and_nothing_of_people(tmp_path):
    model = ScriptedModel(calls('memory {"action": "read"}'), otherwise=says("hello"))
    async with serve(tmp_path, model=model, policy=DANGEROUS) as live:
        headers = await holding(live, 1, scopes=frozenset({Scope.METRICS}))
        feed = live.runtime.events()
        message = (await live.say("My cat is called Byron.", chat="secret-chat", sender="secret-sender")).json()[
            "message"
        ]
        await happened(feed, "turn.asked")
        feed.close()
        for path in ("/v1/status", "/v1/samples", "/v1/nodes", "/metrics"):
            response = await live.client.get(path, headers=headers)
            assert response.status_code == 200
            assert not [word for word in (*SECRETS, message, "ses_") if word in response.text], path
        found = await read(live, "/v1/status", headers)
        (need,) = found["needs"]
        assert (need["kind"], need["count"], need["what"], need["subject"]) == ("approval", 1, "", "")
        for one in ENDPOINTS:
            if one.scope not in {OPEN, ANY, Scope.METRICS}:
                path = one.path.replace("{n}", "1").replace("{", "").replace("}", "")
                refused = await live.client.request(one.method, path, headers=headers, json={} if one.body else None)
                assert (refused.status_code, code_of(refused)) == (403, "scope_required"), path


async def test_messages_are_found_page_by_page(tmp_path):
    async with serve(tmp_path) as live:
        for n in range(5):
            await live.say(f"number {n}", chat="den" if n % 2 else "home", id=f"own-{n}")
        page = await read(live, "/v1/messages", limit=2)
        assert [one["text"] for one in page["messages"]] == ["number 4", "number 3"]
        rest = await read(live, "/v1/messages", limit=9, before=page["next"])
        assert [one["id"] for one in rest["messages"]] == ["own-2", "own-1", "own-0"]
        assert rest["next"] is None
        assert [one["text"] for one in (await read(live, "/v1/messages", chat="den"))["messages"]] == [
            "number 3",
            "number 1",
        ]
        assert [one["id"] for one in (await read(live, "/v1/messages", text="NUMBER 2"))["messages"]] == ["own-2"]
        assert [one["id"] for one in (await read(live, "/v1/messages", own_id="own-3"))["messages"]] == ["own-3"]
        assert (await read(live, "/v1/messages", state="refused"))["messages"] == []
        refused = await live.get("/v1/messages", state="lost")
        assert (refused.status_code, code_of(refused)) == (400, "invalid_input")


async def test_a_relay_lists_the_messages_that_it_finds_by_their_ids(tmp_path):
    async with serve(tmp_path) as live:
        relay = frozenset({Scope.SEND, Scope.READ})
        mine = await holding(live, 1, scopes=relay, binding=Binding(relay=True))
        other = await holding(live, 2, scopes=relay, binding=Binding(relay=True))
        for headers, name in ((mine, "mine"), (other, "other")):
            body = {"chat": name, "id": name, "text": "hello", "sender": name}
            assert (await live.client.post("/v1/messages", json=body, headers=headers)).status_code == 202
        assert [one["id"] for one in (await read(live, "/v1/messages", mine))["messages"]] == ["mine"]
        assert len((await read(live, "/v1/messages"))["messages"]) == 2


async def test_a_timeline_tells_what_happened_with_times(tmp_path):
    async with serve(tmp_path) as live:
        message = (await live.say("My cat is called Byron.")).json()["message"]
        await live.runtime.reply_to(message)
        told = await read(live, f"/v1/messages/{message}/timeline")
        assert (told["message"], told["state"]) == (message, "answered")
        assert told["verdict"].startswith("Answered, and the reply")
        kinds = [step["kind"] for step in told["steps"]]
        assert kinds[0] == "message"
        assert {"turn", "model"} <= set(kinds)
        model = next(step for step in told["steps"] if step["kind"] == "model")
        assert (model["name"], model["mark"], model["chapter"]) == ("practice", "done", "said")
        assert model["duration_ms"] == model["until"] - model["at"]
        assert "Byron" not in str(told)
        missing = await live.get("/v1/messages/msg_nowhere/timeline")
        assert (missing.status_code, code_of(missing)) == (404, "message_not_found")


async def test_samples_are_the_sum_of_all_processes_and_holes_stay(tmp_path):
    async with serve(tmp_path, listed={"ada": AgentPolicy(), "bob": AgentPolicy()}) as live:
        newest = SampleSpan.MINUTE.start_of(live.runtime.clock.now())
        for node, ago, counts in (
            ("a", 0, {"accepted/ada": 2, "replies/delivered/bob/telegram": 1}),
            ("b", 0, {"accepted/ada": 3, "deliveries/delivered/ada/local": 4}),
            ("a", 3, {"accepted/bob": 1}),
            ("a", 70, {"accepted/bob": 5}),
        ):
            made = Sample(
                span=SampleSpan.MINUTE, at=Instant(newest - ago * MINUTE_MS), counts=counts, levels={"waiting/ada": 7}
            )
            await live.runtime.db.write(record_sample(NodeId(node), made))
        found = await read(live, "/v1/samples")
        assert (found["span"], found["length_ms"]) == ("minute", MINUTE_MS)
        assert [(one["at"] - newest) // MINUTE_MS for one in found["samples"]] == [-3, 0]
        assert found["samples"][1]["counts"] == {
            "accepted/ada": 5,
            "deliveries/delivered/ada/local": 4,
            "replies/delivered/bob/telegram": 1,
        }
        assert len((await read(live, "/v1/samples", since=newest - 2 * HOUR_MS))["samples"]) == 3
        hours = (await read(live, "/v1/samples", span="hour"))["samples"]
        assert sum(one["counts"].get("accepted/bob", 0) for one in hours) == 6
        bobs = await holding(live, 1, scopes=frozenset({Scope.METRICS}), agents=frozenset({"bob"}))
        (_, last) = (await read(live, "/v1/samples", bobs))["samples"]
        assert (last["counts"], last["levels"]) == ({"replies/delivered/bob/telegram": 1}, {})
        refused = await live.get("/v1/samples", span="week")
        assert (refused.status_code, code_of(refused)) == (400, "invalid_input")


async def test_processes_are_listed_with_how_each_ended(tmp_path):
    async with serve(tmp_path) as live:
        await live.runtime.db.write(register_node(NodeId("node_b"), "there", sole=False))
        await live.runtime.db.write(retire_node(NodeId("node_b")))
        found = {one["id"]: one for one in (await read(live, "/v1/nodes"))["nodes"]}
        assert (found.pop("node_b"))["ending"] == "stopped"
        ((_, here),) = found.items()
        assert (here["ended_at"], here["ending"]) == (None, None)
        assert here["seen_at"] >= here["started_at"]
