"""The promise: `holdfast status` says on one screen what needs a person and what waits at each agent, and its exit code
says whether somebody has to act.

Rules: R8, R40, R41.
"""

import asyncio
import json
import re
from dataclasses import replace

import pytest

from holdfast.cli.output import Output, TextTable
from holdfast.cli.overview import AgentOverview, StoreOverview
from holdfast.cli.overview_text import AGENT_COLUMNS, agent_cells, overview_text
from holdfast.inbox.channel_status import ComponentKind, ComponentStatus, ConnectionState
from holdfast.kernel.ids import Instant
from holdfast.memory.delivery import DeliveryState
from holdfast.monitor.agent_row import agent_rows
from holdfast.monitor.proved_write_sql import read_proved_writes
from holdfast.monitor.status import Need, NeedKind, Urgency
from holdfast.monitor.status_sql import read_status
from holdfast.runtime.views import Health
from tests.cli.test_cli import asked, here, refused
from tests.monitor.stories import FERN, Story, retain, waiting_for_approval
from tests.support.processes import Up


def look(data, *more):
    done = here("status", "--data", data, "--json", *more)
    return done.returncode, json.loads(done.stdout)


async def test_a_folder_that_is_served_and_idle_needs_nobody_and_after_a_kill_it_does(tmp_path):
    data = tmp_path / "data"
    up = await Up.start(data)
    code, found = await asyncio.to_thread(look, data)
    assert (code, found["served"], found["needs_you"], found["headline"]) == (0, True, False, ["Nothing needs you"])
    assert [(one["agent"], one["waiting"], one["parked"]) for one in found["agents"]] == [("main", 0, 0)]
    assert len(found["nodes"]) == 1
    told = (await asyncio.to_thread(here, "status", "--data", data, "--utc")).stdout
    assert re.search(r"(?m)^Serving on .+ since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+ s ago", told), told
    assert re.search(r"(?m)^The last write was proved ", told)
    assert told.startswith("Nothing needs you\n")

    await up.kill()
    code, found = await asyncio.to_thread(look, data)
    assert (code, found["served"], found["headline"]) == (1, False, ["1 stuck"])
    assert [(need["kind"], need["command"]) for need in found["needs"]] == [("not serving", "holdfast up")]


def test_messages_that_wait_without_a_process_are_one_need_and_stand_in_the_row_of_their_agent(tmp_path):
    for n in range(2):
        here("send", "hello", "--chat", f"c{n}", "--data", tmp_path)
    code, found = look(tmp_path)
    assert (code, found["headline"]) == (1, ["1 stuck", "2 messages wait"])
    assert [need["what"] for need in found["needs"]] == ["No process serves this store, and 2 messages wait"]
    assert found["agents"][0]["waiting"] == 2
    told = here("agents", "--data", tmp_path).stdout.splitlines()
    assert (told[0].split()[:2], told[1].split()[:3]) == (["agent", "queue"], ["main", "2", "waiting"])
    (one,) = asked("agents", "--data", tmp_path)["agents"]
    assert (one["agent"], one["waiting"], one.keys()) == ("main", 2, found["agents"][0].keys())


def test_only_one_agent_may_be_asked_for(tmp_path):
    (tmp_path / "holdfast.toml").write_text('[agents.main]\nmodel = {name = "practice"}\n[agents.moss]\n')
    here("send", "hello", "--agent", "moss", "--data", tmp_path)
    _, every = look(tmp_path)
    assert [(one["agent"], one["model"]) for one in every["agents"]] == [
        ("main", "practice"),
        ("moss", "detected at start"),
    ]
    _, found = look(tmp_path, "--agent", "main")
    assert [one["agent"] for one in found["agents"]] == ["main"]
    refused(here("status", "--agent", "nobody", "--data", tmp_path), "agent_not_found")


def test_a_folder_without_a_store_is_not_made_by_looking(tmp_path):
    for words in ("status", "agents"):
        refused(here(words, "--data", tmp_path), "store_path_invalid")
    assert list(tmp_path.iterdir()) == []


async def overview(driver):
    health = Health(ok=True, at=Instant(0))
    return StoreOverview(is_served=True, health=health, status=await driver.db.read(read_status()), agents=[])


async def test_a_question_needs_a_person_and_says_what_to_type(driver):
    await waiting_for_approval(Story(driver))
    found = await overview(driver)
    assert found.needs_you
    needs, *_ = [part for part in overview_text(found) if isinstance(part, TextTable)]
    (cells,) = needs.rows
    assert (cells[0], cells[-1]) == ("needs you", "holdfast approvals show K7M2QX")


async def test_the_proved_write_of_an_agent_is_its_newest_acknowledged_delivery(driver):
    story = Story(driver)
    driver.policies = retain("honcho")
    await story.says()
    claim, turn = await story.begins()
    await story.answers(claim, turn)
    assert await driver.db.read(read_proved_writes()) == {}
    await story.delivers("honcho", DeliveryState.DELIVERED, receipt="r")
    assert await driver.db.read(read_proved_writes()) == {"fern": driver.clock.now()}


@pytest.mark.parametrize(
    ("urgency", "needs_you"),
    [(Urgency.HOLDS_UP, True), (Urgency.STUCK, True), (Urgency.DECIDE, False), (Urgency.MENDS, False)],
)
async def test_the_exit_code_says_what_the_headline_says(driver, urgency, needs_you):
    found = await overview(driver)
    need = Need(urgency=urgency, kind=NeedKind.REPLY, agent="fern", what="a reply", since=Instant(0))
    found = replace(found, status=replace(found.status, needs=[need]))
    assert (found.needs_you, found.headline.first == ("Nothing needs you",)) == (needs_you, not needs_you)


async def test_the_row_of_an_agent_has_the_states_of_what_it_depends_on(driver):
    await driver.say("hello")
    (row,) = agent_rows(await driver.db.read(read_status()), [])
    states = [
        (ComponentKind.MODEL, "anthropic:claude", ConnectionState.UNKNOWN),
        (ComponentKind.CHANNEL, "telegram", ConnectionState.UP),
        (ComponentKind.CHANNEL, "slack", ConnectionState.DOWN),
        (ComponentKind.TOOLS, "files", ConnectionState.STARTING),
    ]
    components = [
        ComponentStatus(kind=kind, agent=FERN, name=name, state=state, since=Instant(0)) for kind, name, state in states
    ]
    one = AgentOverview(row=row, model="detected at start", components=components, proved_at=None)
    cells = dict(zip(AGENT_COLUMNS, agent_cells(one), strict=True))
    assert (cells["agent"], cells["queue"], cells["model"]) == ("fern", "1 waiting", "anthropic:claude")
    assert (cells["channels"], cells["tools"]) == ("telegram up, slack down", "files starting")
    bare = AgentOverview(row=row, model="detected at start", components=[], proved_at=None)
    assert agent_cells(bare)[3] == "detected at start"


def test_a_paused_agent_says_so(tmp_path):
    here("send", "hello", "--data", tmp_path)
    assert here("pause", "main", "--data", tmp_path).returncode == 0
    _, found = look(tmp_path)
    assert (found["agents"][0]["paused_at"] is not None, found["second"]) == (True, ["1 agent is paused"])
    assert "paused, 1 waiting" in here("agents", "--data", tmp_path).stdout


async def test_no_line_is_wider_than_a_terminal_of_40_columns(driver, monkeypatch, capsys):
    await waiting_for_approval(Story(driver))
    found = await overview(driver)
    found = replace(
        found,
        agents=[
            AgentOverview(row=row, model="m", components=[], proved_at=Instant(0))
            for row in agent_rows(found.status, [])
        ],
    )
    monkeypatch.setattr("holdfast.cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    Output(None, *overview_text(found)).print(as_json=False)
    lines = [re.sub(r"\x1b\[\d*m", "", line) for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 40, lines
    assert "urgency   needs you" in lines
