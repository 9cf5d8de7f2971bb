"""The outcome of every ended epoch is shown over HTTP and on the command line, and a failed extraction can be retried.
A bad request gets a sentence and a code.
"""

import asyncio
import json
from functools import partial

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.kernel.ids import AgentName
from holdfast.memory.notes_sql import read_memory
from holdfast.models.practice import PracticeModel
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.sessions import finisher
from holdfast.sessions.finalisation import FinishPolicy
from holdfast.sessions.finalisation_sql import list_finalisations
from holdfast.turns.model import ModelTask
from tests.support.fakes import raises, says, soon
from tests.support.live import code_of, serve

CAT = "Has a cat called Byron."
ANSWER = json.dumps({"changes": [{"verb": "add", "target": "user", "text": CAT}]})


class Moody:
    """The practice model, which cannot extract until it is well."""

    name = "moody"

    def __init__(self):
        self.is_well = False

    def ask(self, request):
        if request.task is not ModelTask.EXTRACT:
            return PracticeModel().ask(request)
        return (says(ANSWER) if self.is_well else raises(RuntimeError("the secret of Byron")))(request)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(finisher, "FinishPolicy", partial(FinishPolicy, attempts_max=1))


async def ended(runtime, outcome):
    """Until the newest finalisation has that outcome."""
    feed = runtime.events()
    while not (found := await runtime.db.read(list_finalisations())) or found[0].outcome != outcome:
        await soon(feed.next_within(50))
    feed.close()
    return found[0].origin


async def failed(runtime):
    await runtime.ask("hello", "My cat is called Byron.")
    await runtime.ask("hello", "/new")
    return await ended(runtime, "failed")


async def test_over_http_they_are_listed_and_taken_up_again(tmp_path):
    model = Moody()
    async with serve(tmp_path, model=model) as live:
        id_ = await failed(live.runtime)
        asked = {"state": "failed", "agent": "main", "limit": 1}
        page = (await live.get("/v1/finalisations", **asked)).json()
        (row,) = page["finalisations"]
        assert (row["id"], row["outcome"], row["attempts"], row["cause"]) == (id_, "failed", 1, "new")
        assert row["reason"]
        assert "Byron" not in json.dumps(page), "people's words stay in the journal"
        model.is_well = True
        again = await live.post(f"/v1/finalisations/{id_}/retry", None)
        assert (again.status_code, again.json()["id"], again.json()["ended_at"]) == (202, id_, None)
        assert await ended(live.runtime, "done") == id_
        assert await notes(live.runtime) == [CAT]


async def notes(runtime):
    return [entry.text for entry in (await runtime.db.read(read_memory(AgentName("main"), "hello"))).entries]


WRONG = [
    ("GET", "/v1/finalisations?state=done", 400, "there is no state 'done' of a finalisation; there are begun, asked"),
    ("GET", "/v1/finalisations?limit=many", 400, "limit must be a whole number, not 'many'"),
    ("POST", "/v1/finalisations/ses_1:1/retry", 404, "'ses_1:1' is no finalisation; they look like finish:ses_01jd"),
    ("POST", "/v1/finalisations/finish:ses_1:x/retry", 404, "'finish:ses_1:x' is no finalisation"),
    ("POST", "/v1/finalisations/finish::1/retry", 404, "'finish::1' is no finalisation"),
    ("POST", f"/v1/finalisations/finish:ses_1:{'9' * 30}/retry", 404, "is no finalisation"),
    ("POST", "/v1/finalisations/finish:ses_1:1/retry", 404, "ses_1 has no finalisation of epoch 1"),
]


async def test_a_bad_request_gets_a_sentence(tmp_path):
    model = Moody()
    model.is_well = True
    async with serve(tmp_path, model=model) as live:
        for method, path, status, why in WRONG:
            response = await live.client.request(method, path)
            code = "invalid_input" if status == 400 else "finalisation_not_found"
            assert (response.status_code, code_of(response)) == (status, code)
            assert why in response.json()["error"]["message"]
        await live.runtime.ask("hello", "My cat is called Byron.")
        await live.runtime.ask("hello", "/new")
        id_ = await ended(live.runtime, "done")
        refused = await live.post(f"/v1/finalisations/{id_}/retry", None)
        assert (refused.status_code, code_of(refused)) == (400, "invalid_input")
        why = f"{id_} is closed; only a failed one can be taken up again"
        assert refused.json()["error"]["message"] == why
        assert [one.outcome for one in await live.runtime.db.read(list_finalisations())] == ["done"]


@pytest.fixture
def holdfast(tmp_path):
    def command(*arguments):
        quiet = {"HOLDFAST_DATA": str(tmp_path), "HOLDFAST_CONFIG": "", "NO_COLOR": "1"}
        return CliRunner().invoke(app, [*map(str, arguments)], env=quiet)

    return command


def test_the_command_line_gives_the_same_answers(tmp_path, holdfast):
    model = Moody()

    async def live(work):
        async with await open_runtime(tmp_path, agents=make_agents(model=model)) as runtime:
            return await work(runtime)

    id_ = asyncio.run(live(failed))
    shown = holdfast("extractions")
    assert (shown.exit_code, id_ in shown.output, "failed" in shown.output) == (0, True, True)
    (row,) = json.loads(holdfast("finalisations", "--state", "failed", "--json").output)["finalisations"]
    assert (row["id"], row["session"], row["epoch"]) == (id_, id_.split(":")[1], 1)
    for none in (("--state", "closed"), ("--agent", "moss"), ("--session", "ses_1")):
        assert json.loads(holdfast("finalisations", *none, "--json").output) == {"finalisations": []}
    listed = [json.loads(holdfast(name, "--json").output) for name in ("extractions", "finalisations")]
    assert listed[0] == listed[1], "the old name gives the same JSON"
    assert f"{id_} is begun; a running `holdfast up` completes it." in holdfast("retry-extraction", id_).output
    assert json.loads(holdfast("refinish", id_, "--json").output)["state"] == "begun", "a second wish changes nothing"
    model.is_well = True
    assert asyncio.run(live(lambda runtime: ended(runtime, "done"))) == id_
    assert asyncio.run(live(notes)) == [CAT]
    wrong = holdfast("finalisations", "--state", "done", "--json")
    assert (wrong.exit_code, "'done' is not one of 'begun'" in wrong.output) == (2, True)
    assert "only a failed one can be taken up again" in holdfast("refinish", id_).output
    assert holdfast("refinish", "finish:ses_1:1").exit_code != 0
