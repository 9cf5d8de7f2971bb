"""The console in a real browser: what it shows stays current, and what it does is asked once and kept."""

import re

import pytest

from tests.browser.console_page import LIVE, go, shoot, tab
from tests.browser.world import asks, console_world, reply, settled, tell, tried
from tests.support.fakes import soon
from tests.support.live import TOKEN

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with console_world(tmp_path, monkeypatch) as live:
        await tell(live)
        await settled(live, "parked")
        await tried(live)
        yield live


@pytest.fixture
async def quiet(tmp_path, monkeypatch):
    async with console_world(tmp_path, monkeypatch) as live:
        yield live


# --- who comes in ------------------------------------------------------------------------------------


async def test_a_link_asks_for_a_token_and_leads_on_after_the_login_and_a_logout_ends_it(world):
    async with tab(world, login=False) as page:
        await page.goto("/console/replies?state=failed")
        await shoot(page, "login")
        await page.fill("#token", "wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#login-problem:not([hidden])")
        assert "not the right one" in await page.inner_text("#login-problem")
        await page.fill("#token", TOKEN)
        await page.keyboard.press("Enter")
        await page.wait_for_selector(LIVE)
        assert page.url.endswith("/console/replies?state=failed")
        assert "403 bot was blocked" in await page.inner_text("main")
        await page.click("#logout")
        await page.wait_for_selector("#login")
        assert "bot was blocked" not in await page.content()
        assert page.complaints == []


async def test_a_request_without_the_csrf_token_or_from_another_origin_changes_nothing(world):
    (delivery,) = await settled(world, "parked")
    path = f"/v1/deliveries/{delivery}/replay"
    async with tab(world) as page:
        status = "async ([path, headers]) => (await fetch(path, {method: 'POST', headers})).status"
        assert await page.evaluate(status, [path, {}]) == 403
        assert await page.evaluate(status, [path, {"X-Holdfast-CSRF": "0" * 64}]) == 403
        csrf = await page.get_attribute('meta[name="csrf"]', "content")
        foreign = {"X-Holdfast-CSRF": csrf, "Origin": "http://evil.example"}
        assert (await page.context.request.post(path, headers=foreign)).status == 403
        other = world.url.replace("127.0.0.1", "localhost")
        await page.goto(f"{other}/console")
        assert await page.is_visible("#login"), "the login of one name is not sent to another"
    assert [one.state for one in await world.runtime.deliveries(state="parked")] == ["parked"]


# --- what is shown stays true ------------------------------------------------------------------------


async def test_a_page_changes_without_a_reload_and_moves_nothing_else(quiet):
    async with tab(quiet) as page:
        await page.evaluate("window.same = document.querySelector('[data-key=support]')")
        assert "Nothing needs you" in await page.inner_text("h1")
        await asks(quiet, "billing", "Please refund it.", chat="refunds")
        await page.wait_for_selector("text=billing wants to run shop_refund")
        assert await page.inner_text("h1") == "1 needs you"
        assert await page.inner_text("nav [aria-current] ~ *, nav .n") != ""
        assert await page.evaluate("window.same === document.querySelector('[data-key=support]')")
        assert page.complaints == []


async def test_new_rows_of_a_list_wait_until_they_are_asked_for(quiet):
    await soon(quiet.runtime.ask("one", "the first", agent="support"))
    async with tab(quiet) as page:
        await go(page, "/console/messages")
        await soon(quiet.runtime.ask("two", "the second", agent="support"))
        await page.wait_for_selector("text=Show 1 new")
        assert await page.locator("#rows tr").count() == 1
        await page.click("text=Show 1 new")
        await page.wait_for_selector("#rows >> text=the second")
        assert await page.locator("#rows tr").count() == 2
        assert await page.is_hidden(".held")


async def test_a_page_says_that_it_is_not_live_and_keeps_what_it_shows(world):
    async with tab(world) as page:
        world.server.stop()
        await page.wait_for_selector("#stamp >> text=not live for")
        assert "2 need you" in await page.inner_text("h1")
        assert "Not live" in await page.inner_text("#said")


async def test_a_hidden_page_asks_for_nothing(quiet):
    async with tab(quiet) as page:
        asked = []
        hide = """hidden => {
            Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
            document.dispatchEvent(new Event('visibilitychange'));
        }"""
        await page.evaluate(hide, True)
        page.on("request", lambda request: asked.append(request.url))
        await asks(quiet, "billing", "Please refund it.", chat="refunds")
        await page.wait_for_timeout(4_500)  # longer than a visible page waits
        assert asked == []
        await page.evaluate(hide, False)
        await page.wait_for_selector("text=billing wants to run shop_refund")


async def test_times_are_those_of_the_browsers_zone_and_the_offset_is_said(world):
    async with tab(world) as page:
        assert await page.inner_text("#zone") in {"times local, UTC+01:00", "times local, UTC+02:00"}
        await go(page, "/console/messages")
        shown = page.locator("#rows time").first
        at = int(await shown.get_attribute("data-at"))
        local = await page.evaluate("at => new Date(at).toTimeString().slice(0, 8)", at)
        assert await shown.inner_text() == local
        assert re.search(r"UTC\+0[12]:00$", await shown.get_attribute("title"))


async def test_a_chart_reads_out_the_sample_under_the_pointer(world):
    async with tab(world) as page:
        await go(page, "/console/deliveries")
        box = await page.locator("#chart-lag .area").bounding_box()
        await page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + 20)
        assert "no sample" in await page.inner_text("#chart-lag .tip"), "a hole is said to be one"
        await page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 20)
        assert "honcho" in await page.inner_text("#chart-lag .tip")
        await page.mouse.move(5, 5)
        assert await page.is_hidden("#chart-lag .tip")


# --- what is done ------------------------------------------------------------------------------------


async def test_a_parked_delivery_is_replayed_after_its_dry_run_and_the_audit_trail_says_by_whom(world):
    (delivery,) = await settled(world, "parked")
    async with tab(world) as page:
        await go(page, "/console/deliveries")
        await page.click("text=Replay…")
        await page.wait_for_selector("dialog[open] >> text=Nothing has been changed")
        assert "413 document larger" in await page.inner_text("dialog[open]")
        await shoot(page, "dry-run")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("dialog[open]", state="detached")
        assert [one.state for one in await world.runtime.deliveries(state="parked")] == ["parked"]
        assert (await world.get("/v1/actions", verb="delivery.replayed")).json()["actions"] == []
        world.side["hindsight"].refuses = ""
        await page.click("text=Replay…")
        await page.click("text=Replay 1 delivery")
        await page.wait_for_selector("dialog[open] >> text=Replayed")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=None parked")
        assert page.complaints == []
    (act,) = (await world.get("/v1/actions", verb="delivery.replayed")).json()["actions"]
    assert (act["subject"], act["actor"]["kind"]) == (delivery, "operator")
    assert act["actor"]["origin"].endswith("with a cookie")
    done = await soon(settled(world, "delivered"))
    assert delivery in done


async def test_an_uncertain_reply_is_resent_once(quiet):
    from holdfast.outbox.post import ReplyState

    asked = await reply(quiet, ReplyState.UNCERTAIN, "no answer in 10 s", doubts=1)
    async with tab(quiet) as page:
        await go(page, "/console/replies")
        await page.click("text=Resend…")
        await page.wait_for_selector("dialog[open] >> text=people see it twice")
        await page.click("text=Resend 1 reply")
        await page.wait_for_selector("dialog[open] >> text=Resent")
        assert await page.is_hidden("dialog[open] >> text=Resend 1 reply")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("text=1 on its way")
    (act,) = (await quiet.get("/v1/actions", verb="reply.resent")).json()["actions"]
    assert act["subject"] == asked


KEYS = "[...document.querySelectorAll('[data-key]')].filter((one) => one.closest('main')).map((one) => one.dataset.key)"


async def test_an_approval_is_decided_and_the_order_is_the_same_before_and_after_a_reload(world):
    third = await asks(world, "support", "I want a refund.", chat="9")
    async with tab(world) as page:
        await go(page, "/console/approvals")
        before = await page.evaluate(KEYS)
        assert len(before) == 3
        assert before[-1] == third, "the one that was asked last has the most time left"
        await page.click(f"[id='{before[1]}'] >> text=Approve…")
        await page.wait_for_selector("dialog[open] >> text=exactly these arguments")
        await shoot(page, "approve")
        await page.click("text=Approve 1 call")
        await page.wait_for_selector("dialog[open] >> text=Approved")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(f"[id='{before[1]}']", state="detached")
        after = await page.evaluate(KEYS)
        assert after == [before[0], before[2], f"{before[1]} decided"]
        await page.fill(f"[id='{before[0]}'] input", "not without a photo")
        await page.click(f"[id='{before[0]}'] >> button:text-is('Deny')")
        await page.wait_for_selector(f"[id='{before[0]}']", state="detached")
        shown = await page.evaluate(KEYS)
        await page.reload()
        await page.wait_for_selector(LIVE)
        assert await page.evaluate(KEYS) == shown
        assert shown[0] == before[2]
        assert page.complaints == []
    decided = await world.runtime.approvals.list(decided=True)
    assert {one.id: one.decision and one.decision.value for one in decided} == {
        before[0]: "denied",
        before[1]: "approved",
        before[2]: None,
    }


async def test_a_message_is_followed_from_its_words_to_the_receipt_of_a_provider(world):
    async with tab(world) as page:
        await page.fill("#find", "lamp flickers")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#rows")
        await page.click("#rows a")
        await page.wait_for_selector("text=What happened to this message?")
        assert "hindsight parked" in await page.inner_text(".verdict")
        story = await page.inner_text(".story")
        assert (
            story.index("Accepted and durable") < story.index("answered and committed") < story.index("receipt local:")
        )
        await page.click("summary >> text=what it said")
        assert await page.is_visible("details >> text=It is arranged until 14:00.")
        receipt = re.search(r"local:ses_\w+:\d+", story)
        assert receipt is not None
        here = page.url
        await page.fill("#find", receipt[0])
        await page.keyboard.press("Enter")
        await page.wait_for_url(here)


# --- by keyboard -------------------------------------------------------------------------------------


async def test_everything_is_reached_by_keyboard(world):
    async with tab(world) as page:
        press = page.keyboard.press
        focused = "document.activeElement.textContent"
        await press("Tab")
        assert await page.evaluate(focused) == "Skip to the content"
        await press("j")
        assert await page.evaluate(focused) == "Review"
        await press("j")
        await press("k")
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await press("Enter")
        await page.wait_for_url("**/console/approvals#*")
        await page.wait_for_selector(LIVE)
        await press("g")
        await press("d")
        await page.wait_for_url("**/console/deliveries")
        await page.wait_for_selector(LIVE)
        await press("j")
        assert await page.evaluate(focused) == "Replay…"
        await press("Enter")
        await page.wait_for_selector("dialog[open]")
        assert await page.evaluate(focused) == "Close", "the button that changes nothing has the focus"
        await press("Enter")
        await page.wait_for_selector("dialog[open]", state="detached")
        assert await page.evaluate(focused) == "Replay…", "the focus returns to where it was"
        await press("?")
        await page.wait_for_selector("#keys[open]")
        await press("Escape")
        await press("/")
        await page.keyboard.type("green?")
        await press("Enter")
        await page.wait_for_selector("#rows >> text=lamp in green")
        assert page.complaints == []


async def test_a_theme_is_chosen_and_kept(quiet):
    async with tab(quiet, dark=True) as page:
        ground = "getComputedStyle(document.body).backgroundColor"
        assert await page.evaluate(ground) == "rgb(18, 20, 23)"
        await page.click("#theme")
        assert await page.evaluate(ground) == "rgb(247, 246, 243)"
        await page.reload()
        assert await page.evaluate(ground) == "rgb(247, 246, 243)"
        assert await page.get_attribute("#theme", "aria-label") == "Colours: light"
