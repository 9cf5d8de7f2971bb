"""An attachment can be downloaded by its hash by every client that may read the agent it was sent to. A browser never
renders the download as a page of this server.
"""

import asyncio
import hashlib
from types import SimpleNamespace

from typer.testing import CliRunner

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.cli.commands import app
from holdfast.inbox.address import Address
from holdfast.inbox.message import Arrival, Enclosure
from holdfast.kernel.ids import AgentName, Principal, TokenId
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import ScriptedModel, soon
from tests.support.live import code_of, serve

PNG = b"\x89PNG\r\n\x1a\n and so on"
PAGE = b"<script>alert(1)</script>"


async def send(runtime, body, name="cat.png", agent="main", media_type="image/png"):
    one = Enclosure(hash=hashlib.sha256(body).hexdigest(), name=name, media_type=media_type, body=body)
    address = Address(agent=AgentName(agent), channel="telegram", type="dm", chat="7")
    message = runtime.gateway.new_message()
    sender = Principal("telegram:7")
    arrival = Arrival(
        address=address, event_id=one.hash, principal=sender, text="look", enclosures=(one,), message=message
    )
    await runtime.gateway.accept(arrival)
    return SimpleNamespace(hash=one.hash, message=message)


async def test_an_attachment_is_named_by_its_message_and_had_by_its_hash(tmp_path):
    async with serve(tmp_path / "data", model=ScriptedModel()) as live:
        sent = await send(live.runtime, PNG, name='"caf\u00e9"\r\nX-Evil: 1; .png')
        [named] = (await live.get(f"/v1/messages/{sent.message}")).json()["attachments"]
        assert (named["hash"], named["media_type"], named["bytes"]) == (sent.hash, "image/png", len(PNG))
        got = await live.get(f"/v1/attachments/{named['hash']}")
        assert (got.status_code, got.content, got.headers["content-type"]) == (200, PNG, "image/png")
        assert got.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%22caf%C3%A9%22%0D%0A")
        assert "x-evil" not in got.headers
        await soon(live.runtime.reply_to(sent.message))


async def test_what_is_not_plainly_an_image_is_bytes_whatever_its_sender_calls_it(tmp_path):
    async with serve(tmp_path / "data", model=ScriptedModel()) as live:
        for media_type in ("text/html", "image/png", "image/svg+xml"):
            sent = await send(live.runtime, PAGE + media_type.encode(), media_type=media_type)
            got = await live.get(f"/v1/attachments/{sent.hash}")
            assert got.headers["content-type"] == "application/octet-stream"
            assert got.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in got.headers["content-security-policy"]


async def test_an_attachment_exists_for_those_only_who_may_read_its_agent(tmp_path):
    listed = {"ada": AgentPolicy(memory={}), "bob": AgentPolicy(memory={})}
    async with serve(tmp_path / "data", model=ScriptedModel(), listed=listed) as live:
        sent = await send(live.runtime, PNG, agent="ada")
        asked = f"/v1/attachments/{sent.hash}"
        for n, (scope, agents, status) in enumerate(
            [
                (Scope.READ, {"ada"}, 200),
                (Scope.READ, {"bob"}, 404),
                (Scope.READ, {"bob", "ada"}, 200),
                (Scope.SEND, {"ada"}, 403),
            ]
        ):
            token = AccessToken(id=TokenId(f"t{n}"), scopes=frozenset({scope}), agents=frozenset(agents))
            await live.runtime.db.write(add_token(token, hash_token(spell_token(n))))
            answer = await live.client.get(asked, headers={"Authorization": f"Bearer {spell_token(n)}"})
            assert answer.status_code == status, (scope, agents)
        await send(live.runtime, PNG, agent="bob")
        answer = await live.client.get(asked, headers={"Authorization": f"Bearer {spell_token(1)}"})
        assert answer.status_code == 200, "the same bytes were sent to bob as well"
        await live.runtime.forget(person="telegram:7", agent="bob")
        answer = await live.client.get(asked, headers={"Authorization": f"Bearer {spell_token(1)}"})
        assert (answer.status_code, code_of(answer)) == (404, "attachment_not_found")


async def test_a_hash_that_is_none_or_of_nothing_is_told(tmp_path):
    async with serve(tmp_path / "data", model=ScriptedModel()) as live:
        for wanted, code in (("0" * 64, "attachment_not_found"), ("A" * 64, "invalid_input"), ("0", "invalid_input")):
            assert code_of(await live.get(f"/v1/attachments/{wanted}")) == code


def run(*arguments):
    quiet = dict.fromkeys(("HOLDFAST_DATA", "HOLDFAST_CONFIG"))
    return CliRunner().invoke(app, [str(one) for one in arguments], env=quiet)


def test_the_command_writes_it_to_a_file_and_over_none(tmp_path):
    data, out, other = tmp_path / "data", tmp_path / "cat.png", tmp_path / "other"

    async def prepared():
        async with serve(data, model=ScriptedModel()) as live:
            return await send(live.runtime, PNG)

    sent = asyncio.run(prepared())
    assert sent.hash in run("trace", sent.message, "--data", data).stdout
    assert run("attachment", sent.hash, "--out", out, "--data", data).exit_code == 0
    assert out.read_bytes() == PNG
    again = run("attachment", sent.hash, "--out", out, "--data", data)
    assert (again.exit_code, "exists already" in again.stderr) == (1, True)
    gone = run("attachment", "0" * 64, "--out", other, "--data", data)
    assert (gone.exit_code, "error[attachment_not_found]" in gone.stderr) == (1, True)
    assert not other.exists()
