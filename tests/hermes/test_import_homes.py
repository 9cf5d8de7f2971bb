"""The import of homes that real releases of Hermes left: every word is imported, and is delivered once.

The homes were damaged by kills, races and compressions; none was repaired before.
"""

import re
import sqlite3
from collections import Counter

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
from tests.hermes.restored_homes import HOMES, NAMES, restore_home
from tests.support.ports import make_ports

SAID = re.compile(
    r"(?:To the other gateway\. )?Message number \d+(?: of the other gateway)?\.|Remember the blue bicycle, please\."
)
# Hermes joined a message to another one, stored that, and stored the message again by itself.
JOINED = {"0.19.0-raced-rotating": {"Message number 6 of the other gateway.": 2}}
LOCAL = DeliveryPolicy(provider=Provider("local"), naming=PerAddress())


@pytest.mark.parametrize("name", NAMES)
async def test_every_word_of_a_real_home_is_imported_and_delivered_once(name, driver, tmp_path):
    home = restore_home(name, tmp_path / "home")
    with HermesReader(find_home(home, {})) as reader:
        target = ImportTarget(make_ports(driver.db, clock=driver.clock))
        report = await HermesImport(reader, AgentName("fern"), target=target, policies=[LOCAL]).run()
    assert report.total("rows") + report.unfinished_rows >= report.rows  # transcripts add some
    delivered = {tuple(row) for row in await driver.rows("select stream, from_turn from delivery where op = 'retain'")}
    said, sent = set(), Counter[str]()
    for one in report.sessions:
        for view in await driver.db.read(list_entries(SessionId(one.session), limit=10_000)):
            found = SAID.findall(view.entry.text) if view.entry.kind == "user" else []
            said.update(found)
            sent.update(found if (one.session, view.entry.turn) in delivered else [])
    assert said == words_of(home)
    assert sent == dict.fromkeys(words_of(home), 1) | JOINED.get(name, {})
    assert sum(one.goes_on for one in report.sessions) == 1


@pytest.mark.parametrize("name", ["0.19.0-busy", "0.19.0-busy-rotating"])
async def test_a_turn_that_was_answered_while_hermes_compressed_is_not_covered_by_the_summary(name, driver, tmp_path):
    home = restore_home(name, tmp_path / "home")
    with HermesReader(find_home(home, {})) as reader:
        target = ImportTarget(make_ports(driver.db, clock=driver.clock))
        report = await HermesImport(reader, AgentName("fern"), target=target).run()
    views = [SessionId(one.session) for one in report.sessions]
    contexts = [await driver.db.read(read_context(session)) for session in views]
    shown = [one.content for context in contexts for one in render(context) if one.role == "user"]
    assert "Remember the blue bicycle, please." in shown


def words_of(home):
    """What the user said, by the database and by the transcripts."""
    with sqlite3.connect(home / "state.db") as db:
        rows = [row[0] for row in db.execute("select content from messages where role = 'user'")]
    texts = [file.read_text(encoding="utf-8") for file in (home / "sessions").glob("session_*.json")]
    return {one for text in (*rows, *texts) for one in SAID.findall(text or "")}


def test_the_homes_are_of_several_releases():
    assert len({path.stem for path in HOMES.glob("schema_*.sql")}) > 2
