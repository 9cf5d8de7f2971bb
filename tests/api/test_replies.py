"""The state of every reply is shown over HTTP and on the command line, and an uncertain or failed reply can be resent.
A bad request gets a sentence and a code.
"""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from holdfast.api.endpoint import state_param
from holdfast.cli.commands import app
from holdfast.inbox.address import Address
from holdfast.inbox.message import Arrival
from holdfast.kernel.errors import InvalidInput
from holdfast.kernel.ids import AgentName, Principal
from holdfast.outbox.post import ReplyState
from holdfast.outbox.reply import ReplySettlement
from holdfast.outbox.reply_sql import claim_replies, settle_reply
from holdfast.runtime.app import open_runtime
from tests.support.fakes import soon
from tests.support.live import code_of, serve

MAIN = AgentName("main")


async def answered(runtime, chat="7"):
    """A message from a platform without a channel here, and its pending reply."""
    address = Address(agent=MAIN, channel="telegram", type="dm", chat=chat)
    message = runtime.gateway.new_message()
    arrival = Arrival(
        address=address, event_id=f"e-{message}", principal=Principal("telegram:7"), text="hello", message=message
    )
    await runtime.gateway.accept(arrival)
    await soon(runtime.reply_to(message))
    return message


async def settled(runtime, message, state, **how):
    """As the reply sender would, on behalf of the serving process."""
    (claim,) = await runtime.db.write(
        claim_replies(runtime._member.node, MAIN, "telegram", name=f"for {message}", limit=1)
    )
    assert claim.message == message
    settlement = ReplySettlement(state=state, **{"part": 0, "doubts": 0, **how})
    await runtime.db.write(settle_reply(claim, settlement))
    return claim.id


async def uncertain(runtime):
    return await settled(
        runtime,
        await answered(runtime),
        ReplyState.UNCERTAIN,
        part=1,
        doubts=2,
        receipt="77",
        reason="possible duplicate",
    )


async def test_over_http_replies_are_listed_and_sent_again(tmp_path):
    async with serve(tmp_path) as live:
        first = await uncertain(live.runtime)
        await answered(live.runtime, chat="8")
        page = (await live.get("/v1/replies")).json()
        assert [(row["state"], row["channel"]) for row in page["replies"]] == [
            ("pending", "telegram"),
            ("uncertain", "telegram"),
        ]
        assert page["next"] is None
        asked = {"state": "uncertain", "agent": "main", "channel": "telegram", "limit": 1}
        (row,) = (await live.get("/v1/replies", **asked)).json()["replies"]
        assert (row["id"], row["possible_duplicate"], row["receipt"], row["due_at"]) == (first, True, "77", None)
        assert "hello" not in json.dumps(page), "the words are with the message"
        again = await live.post(f"/v1/replies/{first}/resend", None)
        assert (again.status_code, again.json()["state"]) == (202, "pending")


async def test_a_message_shows_what_became_of_its_reply(tmp_path):
    async with serve(tmp_path) as live:
        message = await answered(live.runtime)
        await settled(live.runtime, message, ReplyState.FAILED, reason="the bot was blocked")
        reply = (await live.get(f"/v1/messages/{message}")).json()["reply"]
        assert (reply["state"], reply["attempt"], reply["receipt"]) == ("failed", 1, None)
        assert (reply["reason"], reply["possible_duplicate"]) == ("the bot was blocked", False)


@pytest.mark.parametrize("query", [{"state": "sent"}, {"limit": "many"}, {"wrong": 1}], ids=str)
async def test_a_wrong_question_gets_a_sentence(tmp_path, query):
    async with serve(tmp_path) as live:
        response = await live.get("/v1/replies", **query)
        assert (response.status_code, code_of(response)) == (400, "invalid_input")


async def test_what_cannot_be_sent_again_is_refused(tmp_path):
    async with serve(tmp_path) as live:
        delivered = await settled(live.runtime, await answered(live.runtime), ReplyState.DELIVERED, part=1, receipt="1")
        refused = await live.post(f"/v1/replies/{delivered}/resend", None)
        assert (refused.status_code, code_of(refused)) == (400, "invalid_input")
        unknown = await live.post("/v1/replies/rep_unknown/resend", None)
        assert (unknown.status_code, code_of(unknown)) == (404, "reply_not_found")


@pytest.fixture
def holdfast(tmp_path):
    def command(*arguments):
        quiet = {"HOLDFAST_DATA": str(tmp_path), "HOLDFAST_CONFIG": "", "NO_COLOR": "1"}
        return CliRunner().invoke(app, [*map(str, arguments)], env=quiet)

    return command


def test_the_command_line_gives_the_same_answers(tmp_path, holdfast):
    async def talk():
        async with await open_runtime(tmp_path) as runtime:
            return await uncertain(runtime)

    reply = asyncio.run(talk())
    shown = holdfast("replies")
    assert shown.exit_code == 0
    assert "possible duplicate" in shown.output
    (row,) = json.loads(holdfast("replies", "--state", "uncertain", "--json").output)["replies"]
    assert row["id"] == reply
    assert json.loads(holdfast("replies", "--agent", "moss", "--json").output) == {"replies": [], "next": None}
    assert f"{reply} is pending" in holdfast("resend", reply).output
    wrong = holdfast("replies", "--state", "sent", "--json")
    assert (wrong.exit_code, "'sent' is not one of 'pending'" in wrong.output) == (2, True)
    assert holdfast("resend", "rep_unknown").exit_code != 0


def test_a_state_that_does_not_exist_is_named():
    parse = state_param("", ReplyState, "reply state {}").parse
    assert parse is not None
    assert parse("failed") == "failed"
    assert parse(None) is None
    with pytest.raises(InvalidInput, match="there is no reply state 'sent'; there are pending"):
        parse("sent")
