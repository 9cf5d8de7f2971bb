"""Each page shows what the store has, offers the acts that the caller may do, and says so when there is nothing."""

import re
from importlib.resources import files

import pytest

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.kernel.ids import TokenId
from holdfast.monitor.status import NeedKind
from tests.browser.world import HOSTILE, asks, console_world, settled, tell, tried
from tests.console.test_frame import Markup


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with console_world(tmp_path, monkeypatch) as live:
        await tell(live)
        await settled(live, "parked")
        await tried(live)
        yield live


async def words(live, path, **headers):
    response = await live.client.get(path, headers=headers)
    assert response.status_code == 200, path
    page = Markup(response.text)
    assert page.refused == []
    assert len(page.ids) == len(set(page.ids)), path
    return " ".join(page.words.split())


async def links(live, path, pattern):
    return re.findall(pattern, (await live.client.get(path)).text)


async def test_the_overview_says_what_needs_a_person_and_how_each_agent_does(world):
    shown = await words(world, "/console")
    assert "2 need you" in shown
    assert "1 thing mends itself" in shown
    assert "billing wants to run shop_refund" in shown
    assert "1 delivery of concierge to hindsight: parked until replayed" in shown
    assert shown.count("honcho takes no deliveries of 4 agents") == 1
    assert "status 502; request id hn-7720" in shown
    assert "1 awaits a person" in shown
    for agent in ("billing", "concierge", "librarian", "oncall", "research", "support"):
        assert agent in shown


async def test_a_trace_leads_from_the_message_to_each_receipt_with_what_every_step_returned(world):
    (found,) = await links(world, "/console/messages?q=lamp+flickers", r"/console/trace/(msg_\w+)")
    shown = await words(world, f"/console/trace/{found}")
    told = [
        *("Accepted and durable", "Turn 1 of", "claude-sonnet-5 answered", "what it said", "answered and committed"),
        *(
            "It is arranged until 14:00.",
            "local: delivered",
            "receipt local:",
            "hindsight: parked until it is replayed",
        ),
        *("413 document larger", "Replay…", "honcho, attempt 1: failed", "request id hn-7720"),
    ]
    assert [one for one in told if one not in shown] == []
    assert shown.index("Accepted and durable") < shown.index("answered and committed") < shown.index("local: delivered")


async def test_any_id_leads_to_its_trace_and_an_unknown_one_to_its_nearest(world):
    (delivery,) = await settled(world, "parked")
    leads = await world.client.get(f"/console/find?q={delivery}")
    assert leads.status_code == 303
    assert re.search(r"/console/trace/msg_\w+$", leads.headers["location"])
    unknown = await world.client.get("/console/trace/msg_nothing")
    assert (unknown.status_code, "Nothing has this id" in unknown.text) == (404, True)
    assert re.search(r"/console/trace/msg_\w{10}", unknown.text)
    several = await world.client.get("/console/find?q=brass+lamp")
    assert several.headers["location"].endswith("/console/messages?q=brass+lamp")


async def test_messages_are_found_by_their_words_and_hostile_words_stay_words(world):
    assert HOSTILE in await words(world, "/console/messages?q=window.hit")
    shown = await words(world, "/console/messages?agent=support&state=answered&since=day")
    assert ("lamp flickers" in shown, "Do you still have the lamp" in shown) == (False, True)
    assert "None found" in await words(world, "/console/messages?q=zebra")


async def test_deliveries_show_lag_with_its_holes_lanes_and_what_is_parked(world):
    shown = await words(world, "/console/deliveries")
    assert "1 parked" in shown
    assert ("no sample" in shown, "honcho" in shown, "413 document larger" in shown) == (True, True, True)
    drawn = await links(world, "/console/deliveries", r'<path class="line s\d" d="(M[^"]+)"')
    assert all(line.count("M") > 1 for line in drawn if "L" in line), "a hole interrupts every line"
    assert "ten minutes at a time" in await words(world, "/console/deliveries?span=day")


async def test_replaying_and_resending_say_first_what_would_happen(world):
    (delivery,) = await settled(world, "parked")
    shown = await words(world, f"/console/deliveries/replay/{delivery}")
    assert "Nothing has been changed" in shown
    assert "It was parked because: 413 document larger" in shown
    assert "as attempt 2" in shown
    failed, uncertain = await links(world, "/console/replies", r"/console/replies/resend/(rep_\w+)")
    assert "would be pending again" in await words(world, f"/console/replies/resend/{failed}")
    assert "people see it twice" in await words(world, f"/console/replies/resend/{uncertain}")
    assert [one.state for one in await world.runtime.deliveries(state="parked")] == ["parked"]


async def test_an_approval_shows_every_argument_and_its_main_button_only_if_it_can_be_repeated(world):
    page = (await world.client.get("/console/approvals")).text
    shown = " ".join(Markup(page).words.split())
    assert '"note": "Lamp, brass, small: broken on arrival"' in shown
    refund, lookup = (page.index("shop_refund"), page.index("lookup_order"))
    first, second = (page[refund:lookup], page[lookup:]) if refund < lookup else (page[refund:], page[lookup:refund])
    assert ("cannot be taken back" in first, 'class="btn big main"' in first) == (True, False)
    assert ("may be repeated without harm" in second, 'class="btn big main"' in second) == (True, True)


async def test_a_token_that_only_reads_is_offered_no_act(world):
    made = AccessToken(id=TokenId("tok_1"), label="wall", scopes=frozenset({Scope.READ}))
    await world.runtime.db.write(add_token(made, hash_token(spell_token(1))))
    reader = {"Authorization": f"Bearer {spell_token(1)}"}
    (delivery,) = await settled(world, "parked")
    for path in ("/console", "/console/deliveries", "/console/replies", "/console/approvals"):
        page = (await world.client.get(path, headers=reader)).text
        assert ('data-act="' in page, "data-dialog" in page) == (False, False), path
    dialog = (await world.client.get(f"/console/deliveries/replay/{delivery}", headers=reader)).text
    assert 'data-act="' not in dialog


async def test_an_empty_gateway_says_what_would_be_there(tmp_path, monkeypatch):
    async with console_world(tmp_path, monkeypatch) as live:
        assert "Nothing needs you" in await words(live, "/console")
        assert "No messages yet" in await words(live, "/console/messages")
        assert "Every provider has everything" in await words(live, "/console/deliveries")
        assert "Every reply arrived" in await words(live, "/console/replies")
        assert "Nothing waits for you" in await words(live, "/console/approvals")
        assert "No channels configured" in await words(live, "/console/health")


async def test_an_approval_that_was_decided_says_by_whom(tmp_path, monkeypatch):
    async with console_world(tmp_path, monkeypatch) as live:
        approval = await asks(live, "billing", "Please refund it.", chat="refunds")
        await live.post(f"/v1/approvals/{approval}", {"decision": "deny", "reason": "not now"})
        shown = await words(live, "/console/approvals")
        assert ("denied" in shown, "token:operator" in shown, "shop_refund" in shown) == (True, True, True)


async def test_every_kind_of_need_has_a_sign_and_a_word():
    template = files("holdfast.console").joinpath("templates", "needs.html").read_text(encoding="utf-8")
    assert [kind.value for kind in NeedKind if template.count(f'"{kind.value}": ') != 2] == []


async def test_a_paused_agent_says_so(tmp_path, monkeypatch):
    async with console_world(tmp_path, monkeypatch) as live:
        assert (await live.post("/v1/agents/billing/pause")).is_success
        shown = await words(live, "/console")
        assert "Paused" in shown
        assert "billing claude-sonnet-5 http only paused" in shown.replace("billingclaude", "billing claude")


async def test_a_repair_lists_what_it_would_change_and_sends_exactly_that(world):
    (delivery,) = await settled(world, "parked")
    shown = await words(world, "/console/repair/replay/delivery")
    assert "1 delivery: sent to hindsight again" in shown
    assert "Replay 1 delivery" in shown
    page = (await world.client.get(f"/console/repair/drop/delivery?id={delivery}")).text
    assert f'data-body="{{&#34;ids&#34;: [&#34;{delivery}&#34;]}}"' in page
    assert 'data-act="/v1/deliveries/drop"' in page
    settle = await words(world, f"/console/repair/settle/delivery?id={delivery}")
    assert "stays as it is: hindsight did not take it" in settle
    assert "Settle" not in settle.split("audit trail")[1].split("Close")[1][:30]
    for path in ("/console/repair/replay/reply", "/console/repair/fly/delivery"):
        assert (await world.client.get(path)).status_code == 400
    done = await world.post("/v1/deliveries/drop", {"ids": [delivery]})
    assert done.json()["count"] == 1
    assert "None parked" in await words(world, "/console/deliveries")


async def test_what_a_person_says_has_arrived_is_no_longer_to_be_decided(world):
    page = (await world.client.get("/console/replies")).text
    (reply_,) = re.findall(r"/console/repair/settle/reply\?id=(rep_\w+)", page)
    assert "settled as arrived over telegram" in await words(world, f"/console/repair/settle/reply?id={reply_}")
    assert (await world.post("/v1/replies/settle", {"ids": [reply_]})).json()["count"] == 1
    assert f"/console/replies/resend/{reply_}" not in (await world.client.get("/console/replies")).text


async def test_pausing_says_what_waits_and_resuming_who_paused(world):
    shown = await words(world, "/console/agents/billing/pause")
    assert ("begin no turn until it is resumed" in shown, "Pause 1 agent" in shown) == (True, True)
    assert (await world.post("/v1/agents/billing/pause")).is_success
    shown = await words(world, "/console/agents/billing/pause")
    assert ("It was paused by operator" in shown, "Resume 1 agent" in shown) == (True, True)
    assert (await world.client.get("/console/agents/nobody/pause")).status_code == 404
