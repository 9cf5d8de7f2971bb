"""What one more turn costs the store does not depend on how many sessions, messages and deliveries there are already.

Measured in steps of SQLite's machine, statement by statement, so that it is the same on every machine.
"""

from collections import Counter

from tests.support.memory_provider import Service
from tests.support.memory_world import say, shelf

FEW, MANY = 20, 240
CHATS = 8  # in which is measured; each has been spoken in before
GROWS_BY_MAX = 2.0  # trees get deeper
UNDER_WAY = "select 1 from delivery where state in ('scheduled', 'sending', 'uncertain') limit 1"
STEPS_FREE = 60  # a statement of so few steps has no loop worth naming


class Meter:
    """Steps of SQLite's machine per statement, while it is on."""

    def __init__(self):
        self.runs: Counter[tuple[str, str]] = Counter()
        self.steps: Counter[tuple[str, str]] = Counter()
        self._now = ("", "")

    def probe(self, verb, sql):
        self._now = (verb, " ".join(sql.split()))
        self.runs[self._now] += 1

    def each(self):
        return {key: self.steps[key] / runs for key, runs in self.runs.items()}

    def step(self):
        self.steps[self._now] += 1
        return False


async def measured(world, runtime):
    meter, database = Meter(), world.databases[-1]
    database._probe = meter.probe
    database._db.set_progress_handler(meter.step, 1)
    await talk(runtime)
    await at_rest(world)
    database._db.set_progress_handler(None)
    database._probe = None
    return meter.each()


async def at_rest(world):
    """Until everything that was said has been delivered."""
    while world.rows(UNDER_WAY):
        await world.pass_time(1)


async def talk(runtime):
    for n in range(CHATS):
        await say(runtime, "and what about tomorrow?", "/title plans", "/undo", "/status", chat=f"chat {n}")
        await say(runtime, "/branch other plans", "/new", "hello", "/resume plans", chat=f"chat {n}")


def test_a_statement_of_a_turn_costs_the_same_among_few_and_among_many(world):
    async def scenario():
        runtime, chats = await world.open(shelf=shelf(Service()), other=shelf(Service(), name="other")), 0
        costs = []
        for total in (FEW, MANY):
            for n in range(chats, total):
                await say(runtime, "good morning", "how is the weather?", chat=f"chat {n}")
            chats = total
            await at_rest(world)
            costs.append(await measured(world, runtime))
        await runtime.close()
        return costs

    among_few, among_many = world.run(scenario())
    grown = {
        statement: (round(among_few[statement]), round(steps))
        for statement, steps in among_many.items()
        if statement in among_few and steps > max(STEPS_FREE, GROWS_BY_MAX * among_few[statement])
    }
    assert not grown, "\n".join(map(str, grown.items()))
    assert {"accept_message", "claim_work", "end_turn", "claim_lanes", "settle_lanes"} <= {
        verb for verb, _ in among_many
    }
