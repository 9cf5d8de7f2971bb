"""`holdfast spend` and GET /v1/spend say what models cost, to the cent, for people and for programs."""

import json

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli.commands import app
from holdfast.inbox.channel_status import ComponentKind
from holdfast.inbox.component_states import ComponentStates
from holdfast.kernel.ids import AgentName
from holdfast.turns.model import ModelAnswer, ModelTask
from holdfast.turns.model_call import Metered
from holdfast.turns.spend_sql import Spend, dollars, record_spend, sum_spend_by_model
from tests.support.fakes import ScriptedModel, emits
from tests.support.model_asking import request


@pytest.fixture
async def data(tmp_path):
    async with holdfast.open(tmp_path / "data") as runtime:
        for n, agent in enumerate(("fern", "moss")):
            spend = Spend(
                id=f"spd_{n}",
                agent=AgentName(agent),
                task="reply",
                model="openai:m",
                tokens_in=1_000,
                tokens_out=20,
                cost_micros=1_250_000,
            )
            await runtime.db.write(record_spend(spend))
    return tmp_path / "data"


def run(data, *arguments):
    done = CliRunner().invoke(app, ["spend", *arguments, "--data", str(data)])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_shows_each_agent_and_the_sum(data):
    shown = run(data)
    assert "fern" in shown
    assert "moss" in shown
    assert shown.endswith("total $2.50\n")
    found = json.loads(run(data, "--agent", "fern", "--json").splitlines()[0])
    assert (found["total"], found["total_micros"]) == ("$1.25", 1_250_000)
    assert found["lines"] == [
        {
            "agent": "fern",
            "model": "openai:m",
            "task": "reply",
            "answers": 1,
            "tokens_in": 1_000,
            "tokens_out": 20,
            "cost_micros": 1_250_000,
        }
    ]


@pytest.mark.parametrize("task", list(ModelTask))
async def test_every_kind_of_task_is_written_down(data, task):
    async with holdfast.open(data) as runtime:
        paid = emits(ModelAnswer(text="a", cost_micros=7))
        model = Metered(
            ScriptedModel(paid, summary=paid),
            AgentName("rose"),
            runtime.ports,
            None,
            ComponentStates(runtime.clock, ComponentKind.MODEL),
        )
        assert [event async for event in model.ask(request(task=task))] != []
        (found,) = await runtime.db.read(sum_spend_by_model(agent=AgentName("rose")))
    assert (found.task, found.cost_micros, found.answers) == (task.value, 7, 1)


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "$0.00"), (5_000_000, "$5.00"), (1_234_567, "$1.23"), (12_345, "$0.012345"), (7, "$0.000007")],
)
def test_sums_are_written_for_people(micros, text):
    assert dollars(micros) == text
