"""The chat page in a real browser: a person with the link can chat, and a reload or a server restart loses nothing."""

import json
import os
from pathlib import Path

import pytest

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token, end_logins
from holdfast.api.auth.login import LoginEnd
from holdfast.kernel.ids import TokenId
from holdfast.turns.call_view import short_digest
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.browser.chromium import browser
from tests.support.fakes import ScriptedModel, calls, says
from tests.support.live import TOKEN, GatedModel, serve

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]
SHOTS = os.environ.get("HOLDFAST_SCREENSHOTS")
XSS = "My tag is called <img src=x onerror=window.hit=1><script>window.hit=2</script>."


async def shot(page, name):
    if SHOTS:
        keep(name, await page.shot())


def keep(name, shot):
    (Path(SHOTS or ".") / f"{name}.png").write_bytes(shot)


async def say(page, text):
    await page.run(f'document.getElementById("text").value = "{text}"; document.getElementById("say").requestSubmit()')


def has(text):
    return f'document.getElementById("log").innerText.includes("{text}")'


def count(text):
    return f'document.getElementById("log").innerText.split("{text}").length - 1'


async def test_a_link_with_a_code_is_all_it_takes_and_the_conversation_outlives_reload_and_restart(tmp_path):
    async with browser(tmp_path / "profile") as page:
        async with serve(tmp_path / "data") as live:
            port = int(live.url.rsplit(":", 1)[1])
            await page.open(f"{live.url}/#code={live.app.logins.new_code()}")
            await page.until('document.getElementById("status").textContent === "Connected"')
            assert await page.run("location.href") == f"{live.url}/"
            await say(page, "My cat is called Byron.")
            await page.until(has("Noted: My cat is called Byron."))
            await page.until(has("✓ answered"))
            await say(page, XSS)
            await page.until(has("Noted: My tag is called <img"))
            assert await page.run("window.hit") is None
            await say(page, "/status")
            await page.until(has("✓ command"))
            await page.resize(1000, 700)
            await shot(page, "desktop")
            await page.resize(390, 800, dark=True)
            assert await page.run("document.documentElement.scrollWidth <= 390")
            await shot(page, "phone-dark")
            await page.reload()
            await page.until(has("Noted: My cat is called Byron."))
            assert await page.run(count("Noted: My cat is called Byron.")) == 1
        await page.until('document.getElementById("status").textContent === "Reconnecting…"')
        await say(page, "My fox is called Max.")
        async with serve(tmp_path / "data", port=port):
            await page.until(has("Noted: My fox is called Max."))
            assert await page.run(count("My fox is called Max.")) == 2  # said once, answered once
        assert [one for one in page.complaints if "ERR_CONNECTION_REFUSED" not in one] == []


SHOWN = """[...document.querySelectorAll("#log > li")].map((one) => one.firstChild.textContent.split("\\n")[0])"""
GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})


async def test_an_approval_moves_nothing_and_a_reload_shows_all_of_it_in_the_same_order(tmp_path):
    wish = calls('memory {"action": "read"}')
    model = ScriptedModel(says("hello to you"), wish, says("here it is"), wish, says("then without"))
    async with browser(tmp_path / "profile") as page:
        async with serve(tmp_path / "data", model=model, listed={"main": GUARDED}) as live:
            await page.resize(900, 1000)
            await page.open(f"{live.url}/#code={live.app.logins.new_code()}")
            await page.until('document.getElementById("status").textContent === "Connected"')
            await say(page, "hello")
            await page.until(has("hello to you"))
            await say(page, "/status")
            await page.until(has("✓ command"))
            await say(page, "what do you know?")
            await page.until('document.querySelectorAll("li.asked button").length === 2')
            before = await page.run(SHOWN)
            await shot(page, "approval-asked")
            await page.reload()
            await page.until('document.querySelectorAll("li.asked button").length === 2')
            assert await page.run(SHOWN) == before
            await page.run('document.querySelector("li.asked button").click()')
            await page.until(has("here it is"))
            await page.until('document.querySelectorAll("li.asked").length === 0')
            await page.until(has("Approved: memory"))
            after = await page.run(SHOWN)
            assert after[: len(before)] == before
            assert [one.split(" ")[0] for one in after[len(before) :]] == ["/approve", "Approved:", "here"]
            await say(page, "and now?")
            await page.until('document.querySelectorAll("li.asked button").length === 2')
            last = await page.run(SHOWN)
            assert last[: len(after)] == after
            await shot(page, "approval-moved-nothing")
            await page.reload()
            await page.until('document.querySelectorAll("li.asked button").length === 2')
            assert await page.run(SHOWN) == last
            await shot(page, "after-reload")
            await page.run('document.querySelectorAll("li.asked button")[1].click()')
            await page.until(has("then without"))
            await say(page, "/new")
            await page.until(has("New session"))
            await page.reload()
            await page.until(has("New session"))
            assert (await page.run(SHOWN))[: len(last)] == last
        assert [one for one in page.complaints if "ERR_CONNECTION_REFUSED" not in one] == []


HEAD = "Send the weekly report to the team. " * 40
LONG = json.dumps({"action": "read", "note": HEAD, "then": "delete <b>everything</b> \u202e", "more": HEAD})
WHOLE = 'document.querySelector("li.asked details").innerText'


async def test_a_long_call_is_shown_whole_and_approved_by_the_digest_of_what_was_shown(tmp_path):
    model = ScriptedModel(calls(f"memory {LONG}"), says("here it is"))
    async with browser(tmp_path / "profile") as page:
        async with serve(tmp_path / "data", model=model, listed={"main": GUARDED}) as live:
            await page.resize(900, 1000)
            await page.open(f"{live.url}/#code={live.app.logins.new_code()}")
            await page.until('document.getElementById("status").textContent === "Connected"')
            await say(page, "what do you know?")
            await page.until('document.querySelectorAll("li.asked button").length === 2')
            (asked,) = await live.runtime.approvals.list()
            digest = short_digest(asked.digest)
            question = await page.run('document.querySelector("li.asked > div").textContent')
            assert ("everything" in question, digest in question) == (False, False)
            assert await page.run('document.querySelector("li.asked details").open')
            whole = await page.run(WHOLE)
            assert '"then": "delete <b>everything</b> \\u202e",' in whole
            assert [
                line for line in (f"{len(LONG)} characters", digest, "memory", "browser") if line not in whole
            ] == []
            await shot(page, "approval-whole")
            await page.run('document.querySelector("li.asked button").click()')
            await page.until(has("Approved: memory"))
            await page.until(has("here it is"))
            assert await page.run(has(f"/approve {asked.id} {digest}"))
        assert [one for one in page.complaints if "ERR_CONNECTION_REFUSED" not in one] == []


async def test_an_answer_is_shown_while_it_is_made_and_is_whole_after_the_server_died_in_the_middle(tmp_path):
    model = GatedModel()
    async with browser(tmp_path / "profile") as page:
        async with serve(tmp_path / "data", model=model) as live:
            port = int(live.url.rsplit(":", 1)[1])
            await page.open(f"{live.url}/#code={live.app.logins.new_code()}")
            await page.until('document.getElementById("status").textContent === "Connected"')
            await say(page, "My dog is called Ada.")
            await page.until(has("✓ kept"))
            await model.asked.wait()
        async with serve(tmp_path / "data", port=port):
            await page.until(has("✓ answered"))
            assert await page.run(count("My dog is called Ada.")) == 2


async def test_without_a_code_a_token_is_asked_for_and_logging_out_forgets_it(tmp_path):
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data") as live:
        await page.open(live.url)
        await page.until('!document.getElementById("login").hidden')
        await shot(page, "login")
        for token, shown in (("wrong", "problem"), (TOKEN, "room")):
            await page.run(f'document.getElementById("token").value = "{token}"')
            await page.run('document.getElementById("login").requestSubmit()')
            await page.until(
                f'!document.getElementById("{shown}").hidden && document.getElementById("{shown}").innerText'
            )
        await page.run('document.getElementById("logout").click()')
        await page.until('!document.getElementById("login").hidden')
        await page.reload()
        await page.until('!document.getElementById("login").hidden')


async def test_a_token_that_is_bound_talks_in_its_own_chat(tmp_path):
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data") as live:
        scopes = frozenset({Scope.SEND, Scope.READ})
        token = AccessToken(id=TokenId("tok_1"), scopes=scopes, binding=Binding(sender="ada"))
        await live.runtime.db.write(add_token(token, hash_token(spell_token(1))))
        await page.open(live.url)
        await page.until('!document.getElementById("login").hidden')
        await page.run(f'document.getElementById("token").value = "{spell_token(1)}"')
        await page.run('document.getElementById("login").requestSubmit()')
        await page.until('document.getElementById("status").textContent === "Connected"')
        await say(page, "My cat is called Byron.")
        await page.until(has("Noted: My cat is called Byron."))
        await page.reload()
        await page.until(has("Noted: My cat is called Byron."))
        (session,) = await live.runtime.sessions(chat="ada")
        assert session.principal == "ada"


async def test_a_login_that_ends_takes_the_conversation_off_the_page_and_asks_for_a_token_again(tmp_path):
    async with browser(tmp_path / "profile") as page, serve(tmp_path / "data") as live:
        await page.open(f"{live.url}/#code={live.app.logins.new_code()}")
        await page.until('document.getElementById("status").textContent === "Connected"')
        await say(page, "My cat is called Byron.")
        await page.until(has("Noted: My cat is called Byron."))
        await live.runtime.db.write(end_logins(LoginEnd.OPERATOR))
        await page.until('!document.getElementById("login").hidden')
        assert "ended this login" in await page.run('document.getElementById("problem").textContent')
        assert "Byron" not in await page.run("document.body.textContent")
        assert await page.run("document.cookie") == ""
        await page.run(f'document.getElementById("token").value = "{TOKEN}"')
        await page.run('document.getElementById("login").requestSubmit()')
        await page.until(has("Noted: My cat is called Byron."))
