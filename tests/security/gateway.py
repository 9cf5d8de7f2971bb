"""A running `holdfast up` as its neighbours meet it: over HTTP, and by the commands of its operator."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import httpx

from tests.support.live import code_of
from tests.support.processes import start

NUMBERS = itertools.count()


async def command(*words: str | Path, environment: dict[str, str] | None = None) -> tuple[int, Any]:
    """A command with `--json`: its exit code and what it printed."""
    process = await start(*map(str, words), "--json", environment=environment, stderr=asyncio.subprocess.DEVNULL)
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(said) if said.strip() else None


async def refused_command(*words: str | Path, environment: dict[str, str] | None = None) -> str:
    """The code of the error that a command ends with."""
    code, printed = await command(*words, environment=environment)
    assert code == 1, printed
    return str(printed["error"]["code"])


async def new_token(*words: str | Path) -> dict[str, str]:
    """The header of a token that `holdfast token new` makes."""
    code, printed = await command("token", "new", *words)
    assert code == 0, printed
    return {"Authorization": f"Bearer {printed['secret']}"}


async def post(client: httpx.AsyncClient, chat: str, text: str, **more: Any) -> httpx.Response:
    """A message with an id of its own; `headers` beside what belongs to the message."""
    headers = more.pop("headers", None)
    body = {"chat": chat, "id": f"id-{next(NUMBERS)}", "text": text, **more}
    return await client.post("/v1/messages", json=body, headers=headers)


async def said(client: httpx.AsyncClient, chat: str, text: str, **more: Any) -> str:
    """What the agent answers to a message, which is read by the operator."""
    accepted = await post(client, chat, text, **more)
    assert accepted.status_code == 202, accepted.text
    return await reply_of(client, accepted.json()["message"])


async def reply_of(client: httpx.AsyncClient, message: str) -> str:
    await client.get(f"/v1/messages/{message}/stream")
    return str((await client.get(f"/v1/messages/{message}")).json()["reply"]["text"])


async def remembered(client: httpx.AsyncClient) -> None:
    """Wait until memory has every turn so far: the next turn of a person may recall them."""
    unsent = ("scheduled", "sending")
    while any([(await client.get("/v1/deliveries", params={"state": one})).json()["deliveries"] for one in unsent]):
        pass


async def session_of(client: httpx.AsyncClient, chat: str, agent: str = "main") -> str:
    sessions = (await client.get("/v1/sessions", params={"agent": agent, "chat": chat})).json()["sessions"]
    return str(next(one["id"] for one in sessions if one["live"]))


async def context_of(client: httpx.AsyncClient, chat: str, agent: str = "main") -> list[dict[str, Any]]:
    """The messages that the model would be sent for this chat."""
    session = await session_of(client, chat, agent)
    return list((await client.get(f"/v1/sessions/{session}/context")).json()["messages"])


def outcome(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, code_of(response)
