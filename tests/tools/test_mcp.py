"""MCP servers: their tools are there while they are, a lost call is never taken for done, and none fails a start."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn

from holdfast.inbox.channel_status import ConnectionState
from holdfast.kernel.dates import moment
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.tools.mcp import server as server_module
from holdfast.tools.mcp.connection import McpConnection
from holdfast.tools.mcp.server import McpServer, offered_name
from holdfast.tools.mcp.settings import read_settings
from holdfast.tools.mcp.tools import McpTools
from holdfast.turns.journal import ToolReturned
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.tool import ToolContext, ToolOutcome
from holdfast.turns.turn import UNKNOWN_OUTCOME
from tests.support import mcp_program
from tests.support.fakes import ScriptedModel, calls, happened, says, soon
from tests.support.loop_time import timed_out
from tests.support.mcp_program import BAD, WORSE, also_listing, server

# Not in a process list of its own, since tests here kill the program by the number that it tells.
STDIO = {
    "command": [sys.executable, mcp_program.__file__],
    "env": ["TEST_SECRET"],
    "confine": "none",
}
ENVIRONMENT = {"TEST_SECRET": "hush", "OTHER_SECRET": "hidden"}
CONTEXT = ToolContext(agent=AgentName("fern"), session=SessionId("s"), turn=1, principal=Principal("ada"), call="c")
PROGRAM = Path(mcp_program.__file__).read_text()
BUILT_IN = "memory, recall, history"
NAMES = {"t_odd_name_" + offered_name("t", "odd.name")[-8:]} | {
    f"t_{tool}" for tool in ("add", "fail", "secret", "hang", "die", "pid", "hold")
}


def made(table, environment=ENVIRONMENT) -> McpServer:
    settings = read_settings("agents.fern.mcp.t", "t", table, environment)
    return McpServer("fern", settings, McpConnection, clock=SystemClock(), entropy=SystemEntropy(), tasks=AsyncTasks())


@asynccontextmanager
async def started(table):
    one = made(table)
    tools = McpTools([one])
    one.start()
    try:
        await soon(one.settled())
        yield tools
    finally:
        await soon(tools.close())


@asynccontextmanager
async def over_http(app, port: int = 0):
    """The address of an app on loopback; it is gone afterwards."""
    config = uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=0)
    web = uvicorn.Server(config)
    bound = config.bind_socket()
    serving = asyncio.get_running_loop().create_task(web.serve(sockets=[bound]))
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
    finally:
        web.should_exit = True
        await serving
        bound.close()


async def call(tools: McpTools, name: str, arguments: str = "{}"):
    return await soon(tools.call(name, arguments, CONTEXT))


def names(tools: McpTools) -> set[str]:
    return {spec.name for spec in tools.specs(AgentName("fern"))}


# --- over the pipes of a subprocess


async def test_what_a_program_says_on_stderr_goes_to_a_file_of_its_own(tmp_path, capfd):
    code = "import sys; print('canary', file=sys.stderr); sys.exit(1)"
    policy = AgentPolicy(mcp={"t": {"command": [sys.executable, "-c", code]}}, memory={})
    for _ in range(2):
        async with await open_runtime(tmp_path, agents=make_agents(model=ScriptedModel(), policy=policy)):
            pass
    file = tmp_path / "mcp.main.t.log"
    assert set(file.read_text().split()) == {"canary"}
    assert "canary" not in "".join(capfd.readouterr())
    if sys.platform != "win32":
        assert file.stat().st_mode & 0o077 == 0


async def test_a_server_that_dies_in_a_call_leaves_an_unknown_outcome_and_is_there_for_the_next(monkeypatch):
    monkeypatch.setattr(server_module, "CALL_WAIT_S", 60.0)  # a busy machine starts programs slowly
    async with started(STDIO) as tools:
        assert names(tools) == NAMES
        assert (await call(tools, "t_add", '{"a": 1, "b": 2}')).text == "3"
        assert (await call(tools, "t_secret", '{"name": "TEST_SECRET"}')).text == "hush"
        assert (await call(tools, "t_secret", '{"name": "OTHER_SECRET"}')).text == "absent"
        lost = await call(tools, "t_die")
        assert lost.unknown
        assert "was lost during the call" in lost.text
        again = await call(tools, "t_add", '{"a": 2, "b": 2}')
        assert (again.text, again.ok) == ("4", True)


@asynccontextmanager
async def held_calls():
    """A port for the tool `hold`, and the processes in which calls of it are under way."""
    pids: asyncio.Queue[int] = asyncio.Queue()

    async def told(reader, writer):
        pids.put_nowait(int(await reader.readline()))
        await reader.read()
        writer.close()

    heard = await asyncio.start_server(told, "127.0.0.1", 0)
    async with heard:
        yield heard.sockets[0].getsockname()[1], pids


async def until(runtime, is_so) -> None:
    """Until the one MCP server of a runtime stands like this."""
    changed = asyncio.Event()
    runtime.watch_tool_servers(changed.set)
    while not is_so(runtime.tool_servers()[0]):
        await soon(changed.wait())
        changed.clear()


async def test_a_server_that_is_killed_during_a_call_is_journaled_as_an_unknown_outcome(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("holdfast.tools.mcp.tools.START_WAIT_S", 60.0)
    caplog.set_level("INFO", "holdfast")
    async with held_calls() as (port, pids):
        model = ScriptedModel(calls(f't_hold {{"port": {port}}}'), says("done"))
        who = make_agents(model=model, policy=AgentPolicy(mcp={"t": {**STDIO, "env": []}}, memory={}))
        async with await open_runtime(tmp_path, agents=who) as runtime:
            (before,) = runtime.tool_servers()
            message = await runtime.send("c", "go")
            os.kill(await soon(pids.get()), signal.SIGKILL)
            assert await soon(runtime.reply_to(message)) == "done"
            (session,) = await runtime.sessions()
            entries = [one.entry.body for one in await runtime.history(session.id)]
            await until(runtime, lambda one: one.restarts == 1)
            (after,) = runtime.tool_servers()
    (returned,) = [body for body in entries if isinstance(body, ToolReturned)]
    assert returned.outcome == "unknown"
    assert returned.text == f"t was lost during the call (Connection closed). {UNKNOWN_OUTCOME}"
    assert (before.state, before.restarts, set(before.tools)) == (ConnectionState.UP, 0, NAMES)
    assert (after.state, after.restarts, set(after.tools)) == (ConnectionState.UP, 1, NAMES)
    (down,) = [record.fields for record in caplog.records if record.getMessage() == "mcp.down"]
    assert (down["server"], down["why"]) == ("t", "it ended the connection (its stderr is in mcp.main.t.log)")


async def test_a_server_that_is_killed_before_a_call_is_started_again_and_takes_the_call(monkeypatch):
    monkeypatch.setattr(server_module, "CALL_WAIT_S", 60.0)
    async with started(STDIO) as tools:
        lost = asyncio.Event()
        tools.watch(lambda: lost.set() if tools.standings()[0].state is ConnectionState.DOWN else None)
        os.kill(int((await call(tools, "t_pid")).text), signal.SIGKILL)
        await soon(lost.wait())
        again = await call(tools, "t_add", '{"a": 2, "b": 2}')
        assert (again.text, again.ok, again.unknown) == ("4", True, False)
        (now,) = tools.standings()
        assert (now.state, now.restarts, now.reason) == (ConnectionState.UP, 1, "")


async def test_a_server_that_cannot_be_started_again_is_shown_as_down_and_the_call_was_not_made(tmp_path):
    program = tmp_path / "served.py"
    program.write_text(PROGRAM)
    async with started({"command": [sys.executable, str(program)], "confine": "none"}) as tools:
        came_up_at = tools.standings()[0].since
        down = asyncio.Event()
        tools.watch(lambda: down.set() if tools.standings()[0].attempts >= 2 else None)
        pid = int((await call(tools, "t_pid")).text)
        program.unlink()
        os.kill(pid, signal.SIGKILL)
        await soon(down.wait())
        (now,) = tools.standings()
        assert (now.state, now.restarts, now.tools) == (ConnectionState.DOWN, 0, ())
        assert now.since >= came_up_at
        assert now.reason == "MCPError: Connection closed"
        refused = await call(tools, "t_add", '{"a": 2, "b": 2}')
        assert (refused.ok, refused.unknown, refused.missing) == (False, False, True)
        assert refused.text == (
            "There is no tool 't_add'; there are: none. These tool servers are not available now, and so their tools "
            f"are missing: t (down since {moment(now.since)})."
        )


async def test_a_server_that_cannot_be_started_has_no_tools_and_says_so_when_called():
    async with started({"command": ["/no/such/program"]}) as tools:
        assert names(tools) == set()
        missing = await call(tools, "t_add")
        assert (missing.ok, missing.unknown, missing.missing) == (False, False, True)
        assert "are missing: t (down since " in missing.text
        (now,) = tools.standings()
        assert now.state is ConnectionState.DOWN
        assert "/no/such/program" in now.reason


async def test_the_model_is_told_which_tools_there_are_and_which_server_is_down(tmp_path):
    model = ScriptedModel(calls("t_add"), says("done"))
    policy = AgentPolicy(mcp={"t": {"command": ["/no/such/program"]}}, memory={}, instructions="Be brief.")
    async with await open_runtime(tmp_path, agents=make_agents(model=model, policy=policy)) as runtime:
        assert await soon(runtime.ask("c", "go")) == "done"
        (now,) = runtime.tool_servers()
    since = moment(now.since)
    told = f"These tool servers are not available now, and so their tools are missing: t (down since {since})."
    assert model.requests[0][0].content == f"Be brief.\n\n{told}"
    assert model.requests[-1][-1].content == f"There is no tool 't_add'; there are: {BUILT_IN}. {told}"


# --- over HTTP


async def test_a_server_over_http_answers_and_what_it_says_about_failures_is_told():
    async with over_http(server.streamable_http_app(host="127.0.0.1")) as url, started({"url": url}) as tools:
        assert names(tools) == NAMES
        assert (await call(tools, "t_add", '{"a": 1, "b": 2}')).text == "3"
        failed = await call(tools, "t_fail")
        assert (failed.ok, failed.unknown) == (False, False)
        wrong = await call(tools, "t_add", '{"a": "much"}')
        assert not wrong.ok
        assert "not usable" in (await call(tools, "t_add", "{not json")).text


async def test_an_agent_uses_a_server_in_a_turn_and_dangerous_tools_wait_for_a_human(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_SECRET", "hush")
    monkeypatch.setattr("holdfast.tools.mcp.tools.START_WAIT_S", 60.0)
    wishes = calls('t_add {"a": 1, "b": 2}', 't_secret {"name": "TEST_SECRET"}')
    model = ScriptedModel(wishes, says("done"))
    async with over_http(also_listing({}).streamable_http_app(host="127.0.0.1")) as url:
        table = {"url": url, "dangerous": ["secret"], "tools": ["add", "secret"]}
        who = make_agents(model=model, listed={"main": AgentPolicy(mcp={"t": table}, memory={})})
        runtime = await open_runtime(tmp_path, agents=who)
        feed = runtime.events()
        message = await runtime.send("c", "go")
        await happened(feed, "turn.asked")
        (waiting,) = await runtime.approvals.list()
        assert (waiting.tool, waiting.arguments) == ("t_secret", '{"name": "TEST_SECRET"}')
        assert (await soon(runtime.ask("c", f"/approve {waiting.id}"))).startswith("Approved: t_secret")
        assert await soon(runtime.reply_to(message)) == "done"
        assert [one.content for one in model.requests[-1] if one.role == "tool"] == ["3", "hush"]
        offered = {spec.name for spec in model.asked[0].tools}
        assert {"t_add", "t_secret"} <= offered
        assert "t_die" not in offered
        await runtime.close()


async def test_tools_with_schemas_that_cannot_be_offered_are_left_out():
    listing = also_listing(BAD)
    async with over_http(listing.streamable_http_app(host="127.0.0.1")) as url, started({"url": url}) as tools:
        assert names(tools) == NAMES
        assert (await call(tools, "t_add", '{"a": 1, "b": 2}')).text == "3"


async def test_a_server_that_cannot_list_its_tools_has_none():
    listing = also_listing(WORSE)
    async with over_http(listing.streamable_http_app(host="127.0.0.1")) as url, started({"url": url}) as tools:
        assert names(tools) == set()


async def test_a_tool_that_hangs_is_cut_off_and_of_unknown_outcome():
    async with (
        over_http(server.streamable_http_app(host="127.0.0.1")) as url,
        started({"url": url, "timeout_s": 20}) as tools,
    ):
        mcp_program.hanging.clear()
        asked = soon(mcp_program.hanging.wait())
        hung = await timed_out(call(tools, "t_hang"), after=asked, limit_s=20)
        assert (hung.unknown, hung.text) == (True, "t did not answer within 20 s.")
        assert (await call(tools, "t_add", '{"a": 1, "b": 2}')).text == "3", "the server is still there"


async def test_a_server_that_never_answers_the_greeting_is_given_up(monkeypatch):
    monkeypatch.setattr(server_module, "CONNECT_WAIT_S", 0.2)

    async def silent(reader, writer):
        await reader.read()
        writer.close()

    mute = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{mute.sockets[0].getsockname()[1]}/mcp"
    async with started({"url": url}) as tools:
        assert names(tools) == set()
    mute.close()


async def test_a_server_that_goes_away_over_http_is_not_taken_for_done_and_is_found_again_by_the_next_call():
    async with over_http(also_listing({}).streamable_http_app(host="127.0.0.1")) as url:
        port = int(url.split(":")[2].split("/")[0])
        one = made({"url": url, "timeout_s": 5})
        tools = McpTools([one])
        one.start()
        await soon(one.settled())
        assert (await call(tools, "t_add", '{"a": 1, "b": 2}')).text == "3"
    async with over_http(also_listing({}).streamable_http_app(host="127.0.0.1"), port):
        assert await call(tools, "t_add", '{"a": 2, "b": 2}') == ToolOutcome("4"), "the protocol has no sessions"
    assert tools.standings()[0].state is ConnectionState.UP, "nothing has told yet"
    gone = await call(tools, "t_add", '{"a": 1, "b": 2}')
    assert gone == ToolOutcome("t could not be reached (ConnectError); nothing was run.", ok=False)
    assert tools.standings()[0].state is ConnectionState.DOWN
    await soon(tools.close())


async def test_a_call_that_is_cut_off_over_http_is_of_unknown_outcome():
    """The request has arrived, and the connection breaks before the answer: the tool may have run."""
    cut: list[bool] = []

    async def relay(reader, writer):
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)

        async def back():
            while data := await inner_reader.read(65_536):
                writer.write(data)

        answering = asyncio.get_running_loop().create_task(back())
        while data := await reader.read(65_536):
            if cut:
                writer.transport.abort()
                break
            inner_writer.write(data)
        answering.cancel()
        inner_writer.close()
        writer.close()

    async with over_http(also_listing({}).streamable_http_app(host="127.0.0.1")) as url:
        port = int(url.split(":")[2].split("/")[0])
        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        mine = between.sockets[0].getsockname()[1]
        async with between, started({"url": f"http://127.0.0.1:{mine}/mcp", "timeout_s": 5}) as tools:
            assert await call(tools, "t_add", '{"a": 1, "b": 2}') == ToolOutcome("3")
            cut.append(True)
            lost = await call(tools, "t_add", '{"a": 1, "b": 2}')
            assert lost == ToolOutcome("t was lost during the call (Connection closed).", unknown=True)


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_status_that_says_nothing_about_the_tool_leaves_the_outcome_unknown(status):
    inner = also_listing({}).streamable_http_app(host="127.0.0.1")
    broken: list[bool] = []

    async def app(scope, receive, send):
        if not broken or scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"Sorry"})

    async with over_http(app) as url, started({"url": url, "timeout_s": 5}) as tools:
        broken.append(True)
        outcome = await call(tools, "t_add", '{"a": 1, "b": 2}')
        assert outcome == ToolOutcome("t was lost during the call (Server returned an error response).", unknown=True)


@pytest.mark.parametrize(
    ("media_type", "body"),
    [("text/html", b"<h1>Sorry</h1>"), ("application/json", b'{"jsonrpc": "2.0", "id": 1, "resu')],
    ids=["a page of a proxy", "half a JSON"],
)
async def test_an_answer_that_is_no_answer_leaves_the_outcome_unknown(media_type, body):
    inner = also_listing({}).streamable_http_app(host="127.0.0.1")
    broken: list[bool] = []

    async def app(scope, receive, send):
        if not broken or scope["type"] != "http" or scope["method"] != "POST":
            await inner(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", media_type.encode())]})
        await send({"type": "http.response.body", "body": body})

    async with over_http(app) as url, started({"url": url, "timeout_s": 5}) as tools:
        broken.append(True)
        assert (await call(tools, "t_add", '{"a": 1, "b": 2}')).unknown


async def test_the_token_is_sent_and_is_nowhere_else():
    seen: list[str] = []
    inner = also_listing({}).streamable_http_app(host="127.0.0.1")

    async def app(scope, receive, send):
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await inner(scope, receive, send)

    async with over_http(app) as url:
        settings = read_settings("k", "t", {"url": url, "token_env": "TEST_SECRET"}, ENVIRONMENT)
        assert "hush" not in repr(settings)
        async with started({"url": url, "token_env": "TEST_SECRET"}) as tools:
            assert names(tools)
    assert set(seen) == {"Bearer hush"}


# --- what can be wrong with a table


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "needs either `command`"),
        ({"command": ["x"], "url": "http://127.0.0.1/"}, "needs either `command`"),
        ({"command": "npx server"}, "Expected `array"),
        ({"command": "npx server --key pw"}, "Expected `array"),
        ({"command": ["x"], "env": {"KEY": "pw"}}, "env: Expected `array"),
        ({"command": []}, "must be a list of strings"),
        ({"comand": ["x"]}, "comand is not a setting; did you mean command?"),
        ({"url": "ftp://x/"}, "must start with http"),
        ({"url": "http://169.254.169.254/"}, "answer about themselves"),
        ({"url": "http://me:pw@127.0.0.1/"}, "no user and no password"),
        ({"url": "http://example.org/", "token_env": "TEST_SECRET"}, "over plain http the key could be read"),
        ({"url": "https://example.org/", "token_env": "NOT_SET"}, "the environment has no 'NOT_SET'"),
        ({"command": ["x"], "env": ["NOT_SET"]}, "the environment has no 'NOT_SET'"),
        ({"command": ["x"], "token_env": "TEST_SECRET"}, "is for servers with a `url`"),
        ({"command": ["x"], "timeout_s": 0}, "timeout_s is 0"),
        ({"command": ["x"], "dangerous": "yes"}, "Expected"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_table_that_cannot_be_right_is_refused_with_its_key(table, said):
    with pytest.raises(ConfigInvalid, match=r"agents\.fern\.mcp\.t") as caught:
        made(table)
    assert said in str(caught.value)
    assert "pw" not in str(caught.value)


def test_what_is_dangerous_and_idempotent_is_the_operators_to_say():
    some = read_settings("k", "t", {"command": ["x"], "dangerous": ["die"], "idempotent": ["add"]}, {})
    assert [some.is_dangerous(tool) for tool in ("die", "add")] == [True, False]
    assert some.idempotent == {"add"}
    every = read_settings("k", "t", {"command": ["x"], "dangerous": True}, {})
    assert every.is_dangerous("anything")
    assert replace(every, tools=frozenset({"a"})).is_wanted("b") is False


def test_names_stay_apart_however_long_or_odd_they_are():
    long = "x" * 100
    made_names = [offered_name("srv", tool) for tool in ("a.b", "a b", "a_b", long, long + "y")]
    assert len(set(made_names)) == 5
    assert all(len(name) <= 64 for name in made_names)
    assert offered_name("srv", "a_b") == "srv_a_b"
