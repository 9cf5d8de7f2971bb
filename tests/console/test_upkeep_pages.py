"""The pages about memory, ends of sessions, people and costs: what they show, who sees them, and what an act does."""

import html
import re
from functools import partial
from typing import Any

import pytest

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.audit.action_sql import list_actions
from holdfast.inbox.access import PairingAsk
from holdfast.inbox.access_sql import ask_pairing
from holdfast.kernel.ids import AgentName, MailboxId, Principal, ReplyId, TokenId
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.memory.recall import RecallPolicy
from holdfast.sessions import finisher
from holdfast.sessions.finalisation import FinishPolicy
from holdfast.turns.policy import AgentPolicy, ExpiryPolicy
from holdfast.turns.spend_sql import Spend, record_spend
from tests.api.test_finalisations import Moody, ended, failed
from tests.console.acting import acted
from tests.console.test_sessions import HOSTILE, page
from tests.support.counting import CountingDatabase
from tests.support.live import serve

MAIN = AgentName("main")


async def token(live, number, *scopes, **more):
    made = AccessToken(id=TokenId(f"tok_{number}"), scopes=frozenset(scopes), **more)
    await live.runtime.db.write(add_token(made, hash_token(spell_token(number))))
    return {"Authorization": f"Bearer {spell_token(number)}"}


async def acts(live):
    return [one.verb for one in await live.runtime.db.read(list_actions(limit=5))]


# --- spend ------------------------------------------------------------------------------------------------


async def paid(live, number, micros, *, model="m", agent="main"):
    spend = Spend(
        id=f"spd_{number}",
        agent=AgentName(agent),
        task="reply",
        model=model,
        tokens_in=1_000,
        tokens_out=10,
        cost_micros=micros,
    )
    await live.runtime.db.write(record_spend(spend))


async def test_costs_are_shown_against_the_cap_of_the_agent(tmp_path):
    policy = AgentPolicy(daily_spend_micros=2_000_000)
    async with serve(tmp_path / "data", listed={"main": policy, "moss": AgentPolicy()}) as live:
        await paid(live, 1, 1_500_000, model=HOSTILE)
        await paid(live, 2, 250_000, agent="moss")
        words = (await page(live, "/console/spend")).words
        assert [one for one in ("$1.75 today", HOSTILE, "$1.50 of $2.00", "$0.25, no cap") if one not in words] == []
        words = (await page(live, "/console/spend", agent="main", days="7")).words
        assert [one for one in ("$1.50 today for main", "$2.00 a day") if one not in words] == []
        await paid(live, 3, 600_000)
        assert "main has used up its cap" in (await page(live, "/console/spend")).words


async def test_without_costs_the_page_says_so(tmp_path):
    async with serve(tmp_path / "data") as live:
        assert "No answer of a model was recorded" in (await page(live, "/console/spend", days="nonsense")).words


# --- memory -----------------------------------------------------------------------------------------------


async def noted(live, subject, *changes, by="model"):
    batch = MemoryBatch(agent=MAIN, subject=subject, origin=f"{subject}{changes}", changes=changes, by=by)
    await live.runtime.db.write(apply_memory(batch))


def add(text):
    return NoteChange(verb=MemoryVerb.ADD, target=Target.USER, text=text)


async def test_notes_have_their_readers_and_a_difference_for_each_change(tmp_path):
    async with serve(tmp_path / "data") as live:
        await noted(live, "ada", add("Prefers short answers"))
        change = NoteChange(
            verb=MemoryVerb.REPLACE, target=Target.USER, old="short", text=f"Prefers long answers {HOSTILE}"
        )
        await noted(live, "ada", change)
        await noted(live, "", add("Refunds need two people"), by="user")
        await noted(live, "chat:agent:main:http:group:den", add("We meet on Mondays"))
        words = (await page(live, "/console/memory")).words
        for told in ("Everybody who talks with the agent", "The members of this chat", "This person and their linked"):
            assert told in words, told
        text = (await live.get("/console/memory/notes", agent="main", scope="ada")).text
        assert "<del>short</del> <ins>long</ins> <span>answers</span> <ins>" in text
        words = (await page(live, "/console/memory/notes", agent="main", scope="ada")).words
        assert (HOSTILE in words, "change 2 by the model" in words) == (True, True)
        found = (await page(live, "/console/memory", q="mond", agent="main")).words
        assert "None found" in found
        assert "den" in (await page(live, "/console/memory", q=":den")).words


async def test_a_shared_memory_is_said_to_be_shared(tmp_path):
    policy = AgentPolicy(recall=RecallPolicy(shares_all=True))
    async with serve(tmp_path / "data", listed={"main": policy}) as live:
        await noted(live, "ada", add("Prefers short answers"))
        assert 'memory.sharing is "agent"' in (await page(live, "/console/memory")).words


async def test_pages_of_notes_miss_none(tmp_path):
    async with serve(tmp_path / "data") as live:
        for n in range(60):
            await noted(live, f"person {n:02}", add("A note"))
        first = (await live.client.get("/console/memory")).text
        (more,) = re.findall(r'rel="next" href="([^"]+)"', first)
        both = first + (await live.client.get(html.unescape(more))).text
        assert [n for n in range(60) if f">person {n:02}<" not in both] == []


# --- finish -----------------------------------------------------------------------------------------------


async def test_what_ends_next_is_named_with_its_time_and_what_never_ends_too(tmp_path):
    resting = AgentPolicy(expiry=ExpiryPolicy(idle_minutes=60))
    async with serve(tmp_path / "data", listed={"main": resting, "moss": AgentPolicy()}) as live:
        await live.talk(HOSTILE, chat="den")
        await live.talk(f"/title {HOSTILE}", chat="den")
        words = (await page(live, "/console/finish")).words
        assert (HOSTILE in words, "The next session ends in 59 m" in words) == (True, True)
        assert "sessions of moss end with /new only" in words


async def test_an_extraction_that_gave_up_is_retried_after_a_dry_run(tmp_path, monkeypatch):
    monkeypatch.setattr(finisher, "FinishPolicy", partial(FinishPolicy, attempts_max=1))
    model = Moody()
    async with serve(tmp_path / "data", model=model) as live:
        origin = await failed(live.runtime)
        assert "1 gave up" in (await page(live, "/console/finish")).words
        dialog = (await live.client.get(f"/console/finish/retry/{origin}")).text
        assert "the model would be asked" in dialog
        model.is_well = True
        assert (await acted(live, dialog)).status_code == 202
        assert await ended(live.runtime, "done") == origin
        assert "finalisation.retried" in await acts(live)
        words = (await page(live, "/console/finish", state="closed")).words
        assert "1 note written" in words
        again = (await live.client.get(f"/console/finish/retry/{origin}")).text
        assert ("only one that gave up can be retried" in again, "data-act" in again) == (True, False)
        assert (await live.client.get("/console/finish/retry/finish:ses_x:1")).status_code == 200
        assert (await live.client.get("/console/finish/retry/nonsense")).status_code == 404


# --- people -----------------------------------------------------------------------------------------------


async def asks(live, code, principal="telegram:7", name=HOSTILE[:60]):
    ask = PairingAsk(
        agent=MAIN,
        channel="telegram",
        principal=Principal(principal),
        address="agent:main:telegram:dm:7",
        code=code,
        reply=ReplyId(f"rep_{code}"),
        new_mailbox=MailboxId(f"box_{code}"),
        name=name,
    )
    await live.runtime.db.write(ask_pairing(ask))


@pytest.mark.parametrize(("decision", "state"), [("admit", "admitted"), ("deny", "denied")])
async def test_a_stranger_is_decided_about_after_a_dry_run_and_the_decision_withdrawn(tmp_path, decision, state):
    async with serve(tmp_path / "data") as live:
        await asks(live, "7K2MPQ9X")
        words = (await page(live, "/console/people")).words
        assert ("1 person asks to be let in" in words, HOSTILE[:60] in words) == (True, True)
        dialog = (await live.get("/console/people/pair/7K2M-PQ9X", decision=decision)).text
        assert (await acted(live, dialog)).json()["state"] == state
        assert state in (await page(live, "/console/people")).words
        assert "nothing to decide" in (await live.client.get("/console/people/pair/7K2M-PQ9X")).text
        dialog = (await live.get("/console/people/unpair", principal="telegram:7", agent="main")).text
        assert (await acted(live, dialog)).status_code == 200
        assert (await acts(live))[:1] == ["access.withdrawn"]
        assert (await live.client.get("/console/people/pair/XXXX-XXXX")).status_code == 404


async def test_a_link_is_removed_after_a_dry_run(tmp_path):
    async with serve(tmp_path / "data") as live:
        await live.runtime.access.link("telegram:7", "ada")
        assert "telegram:7" in (await page(live, "/console/people")).words
        dialog = (await live.get("/console/people/unlink", principal="telegram:7")).text
        assert (await acted(live, dialog)).status_code == 200
        assert await live.runtime.access.links() == ()
        assert "not linked" in (await live.get("/console/people/unlink", principal="telegram:7")).text


async def test_only_an_admin_sees_people_and_no_page_shows_a_secret(tmp_path):
    async with serve(tmp_path / "data") as live:
        operator = await token(live, 1, Scope.OPERATE, label=HOSTILE[:40])
        admin = await token(live, 2, Scope.ADMIN, label="admin")
        for path in ("/console/people", "/console/people/unpair", "/console/people/unlink", "/console/people/pair/X"):
            assert (await live.client.get(path, headers=operator)).status_code == 403, path
        shown = await live.client.get("/console/people", headers=admin)
        assert shown.status_code == 200
        assert [n for n in (1, 2) if spell_token(n) in shown.text] == []


async def test_each_page_asks_the_store_equally_often_however_much_it_shows(tmp_path):
    counting: Any = None

    def counted_by(runtime):
        nonlocal counting
        runtime.db = counting = CountingDatabase(runtime.db)
        return runtime

    async with serve(tmp_path / "data", wrap=counted_by) as live:
        found = []
        for more in (range(1), range(1, 9)):
            for n in more:
                await paid(live, n, 1_000 + n, model=f"m{n}")
                await noted(live, f"person {n}", add(f"A note {n}"))
                await token(live, n, Scope.READ)
                await live.talk(f"Note {n}", "/new", chat=f"chat {n}")
            for path in ("spend", "memory", "finish", "people"):
                with counting.measured() as counted:
                    await page(live, f"/console/{path}")
                found.append(counted.statement_count)
        assert found[:4] == found[4:]
