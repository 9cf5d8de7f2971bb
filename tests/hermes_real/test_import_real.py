"""The promise: a home that a real Hermes made, compressed in place or rotating, is imported with every message once.

Afterwards its chat goes on in the same session, with the history.
"""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from holdfast.hermes.home import find_home
from holdfast.hermes.importing.home_reader import HermesReader
from holdfast.hermes.importing.importer import HermesImport
from holdfast.hermes.importing.target import ImportTarget
from holdfast.kernel.ids import AgentName, Provider, SessionId
from holdfast.memory.delivery import DeliveryPolicy, PerAddress
from holdfast.sessions.history_sql import list_entries
from holdfast.turns.context import render
from holdfast.turns.context_sql import read_context
from tests.support.ports import make_ports

LAST = "What was the first message about?"
TURNS = 14

pytestmark = [pytest.mark.hermes, pytest.mark.timeout(900)]


def made_by_hermes(python: Path, home: Path, *options: str) -> Path:
    """A home in which a real gateway answered fifteen messages and compressed the history more than once."""
    script = Path(__file__).with_name("gateway_run.py")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([python, script, home, "rotate", f"turns={TURNS}", *options], check=True, env=environment)
    return home


async def imported(driver, home):
    """Import the home and check that every message was kept and is delivered once; the session that goes on."""
    local = DeliveryPolicy(provider=Provider("local"), naming=PerAddress())
    with HermesReader(find_home(home, {})) as reader:
        target = ImportTarget(make_ports(driver.db, clock=driver.clock))
        report = await HermesImport(reader, AgentName("fern"), target=target, policies=[local]).run()
    turns = await driver.rows("select stream, from_turn from delivery where op = 'retain'")
    delivered = {(stream, turn) for stream, turn in turns}
    said: Counter[str] = Counter()
    for one in report.sessions:
        for view in await driver.db.read(list_entries(SessionId(one.session), limit=10_000)):
            number = re.match(r"Message number (\d+)\.", view.entry.text) if view.entry.kind == "user" else None
            if number is not None and (one.session, view.entry.turn) in delivered:
                said[number[1]] += 1
    assert said == Counter({str(n): 1 for n in range(TURNS)})
    (live,) = [one.session for one in report.sessions if one.goes_on]
    return report, SessionId(live)


async def check_goes_on(driver, live):
    """A message to the same chat is answered in the session, with the summary and the last messages in view."""
    turn = await driver.talk("And now?", chat="4242", who="telegram:4242", channel="telegram", type="dm")
    assert turn.session == live
    context = await driver.db.read(read_context(live))
    assert context.summary is not None
    assert [one.content for one in render(context) if one.content in {LAST, "And now?"}] == [LAST, "And now?"]


@pytest.mark.parametrize("options", [[], ["in_place=false"]], ids=["in place", "rotating"])
async def test_every_message_of_a_real_home_is_imported_and_delivered_once(driver, hermes_python, tmp_path, options):
    report, live = await imported(driver, made_by_hermes(hermes_python, tmp_path / "home", *options))
    assert report.total("rows") == report.rows
    await check_goes_on(driver, live)


async def test_a_home_of_0_14_is_imported_and_goes_on(driver, python_0_14, tmp_path):
    home = made_by_hermes(python_0_14, tmp_path / "home")
    assert list((home / "sessions").glob("*.jsonl")), "this release leaves transcripts"
    _, live = await imported(driver, home)
    await check_goes_on(driver, live)


async def test_a_home_of_0_15_is_imported_and_goes_on(driver, python_0_15, tmp_path):
    home = made_by_hermes(python_0_15, tmp_path / "home")
    assert not list((home / "sessions").glob("*.jsonl")), "this release leaves no transcripts"
    _, live = await imported(driver, home)
    await check_goes_on(driver, live)


async def test_an_old_home_that_lost_its_database_is_imported_from_its_transcripts(driver, python_0_14, tmp_path):
    home = made_by_hermes(python_0_14, tmp_path / "home")
    for file in home.glob("state.db*"):
        file.unlink()
    with HermesReader(find_home(home, {})) as reader:
        target = ImportTarget(make_ports(driver.db, clock=driver.clock))
        report = await HermesImport(reader, AgentName("fern"), target=target).run()
    said = set()
    for one in report.sessions:
        for view in await driver.db.read(list_entries(SessionId(one.session), limit=10_000)):
            said |= set(re.findall(r"Message number (\d+)\.", view.entry.text))
    assert said == {str(n) for n in range(TURNS)}
