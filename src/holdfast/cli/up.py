"""`holdfast up`: serve the data folder over HTTP until the process is stopped."""

import asyncio
import hashlib
import logging
import os
import sys
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from holdfast.api.auth.access_token_sql import list_tokens
from holdfast.api.auth.operator_token import Token, load_token
from holdfast.api.errors import PublicBindRefused
from holdfast.audit.action import Act
from holdfast.audit.action_sql import note_settings, record_action
from holdfast.audit.actor import acting, record_refusal
from holdfast.cli.command import Invocation, Runtime, command
from holdfast.cli.configuration import explain
from holdfast.cli.logs import FILE, logging_to, to_file
from holdfast.cli.output import OK, print_json, print_warning
from holdfast.cli.reload_listener import ReloadListener
from holdfast.cli.status import StatusFile
from holdfast.cli.terminal import on_hangup, on_signal
from holdfast.config import HOST, PORT, ServerTable, load_reading
from holdfast.kernel import log
from holdfast.kernel.errors import AllowlistNotImmutable, ConfigInvalid, HoldfastError, StoreBroken
from holdfast.kernel.hardening import variables
from holdfast.runtime.app import detect_agents, owner_of, secure_folder

if TYPE_CHECKING:
    from holdfast.api.server import HttpServer
    from holdfast.runtime.reloading import Reloader, ReloadReport
    from holdfast.turns.agents import Agents

ESCAPED_BYTES_PER_BYTE = 6  # JSON may write any byte as \u00xx
ENVELOPE_BYTES = 64 * 1024
WAL = "holdfast.db-wal"


@command(config=True)
async def up(
    invocation: Invocation,
    *,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port; 0 for any free port.", show_default=str(PORT)),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.", show_default=HOST)] = None,
    public_host: Annotated[
        list[str] | None,
        typer.Option("--public-host", help="A public host name of this server; may be repeated.", show_default=""),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy", help="A proxy whose X-Forwarded-For is trusted; may be repeated.", show_default=""
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log to stderr instead of the data folder.")] = False,
) -> int:
    """Run the server: HTTP API, chat page and channels.

    The server answers messages and listens on loopback until Ctrl-C. To serve other machines, name the public host with
    --public-host and choose a token (HOLDFAST_TOKEN, or one created with `holdfast token new`).

    HOLDFAST_TOKEN sets the operator's token, 32 or more random characters. By default a token is generated and stored
    in the data folder. HOLDFAST_EVENT_LOOP=uvloop runs on uvloop, if holdfast[uvloop] is installed: it costs less CPU.

    \b
    Examples:
      holdfast up
      holdfast up --data ./data --port 7421
      HOLDFAST_TOKEN=... holdfast up --config holdfast.toml
      HOLDFAST_TOKEN=... holdfast up --host 0.0.0.0 --public-host chat.example.org
    """
    try:
        server = invocation.settings.server
        listening = structs.replace(
            server,
            host=host or server.host,
            port=server.port if port is None else port,
            public_hosts=tuple(public_host or server.public_hosts),
            trusted_proxies=tuple(trusted_proxy or server.trusted_proxies),
        )
        return await _serve(invocation, listening, verbose=verbose)
    except (ConfigInvalid, AllowlistNotImmutable) as error:
        return await explain(error, invocation)


class ServerLifetime:
    """Stops the server on request, or when the store breaks."""

    def __init__(self) -> None:
        self.broken: StoreBroken | None = None
        self.server: HttpServer | None = None
        self.is_over = False  # it was requested to end, perhaps before there was a server

    def end(self) -> None:
        self.is_over = True
        if self.server is not None:
            self.server.stop()

    def break_off(self, error: StoreBroken) -> None:
        log.error("store.broken", why=str(error))
        self.broken = error
        self.end()


async def _serve(invocation: Invocation, listening: ServerTable, *, verbose: bool) -> int:
    folder, settings, as_json = invocation.folder, invocation.settings, invocation.as_json
    life, loop = ServerLifetime(), asyncio.get_running_loop()
    listener = ReloadListener(folder, life.end)

    def on_broken(error: StoreBroken) -> None:  # on the writer's thread
        loop.call_soon_threadsafe(life.break_off, error)

    with on_hangup(listener.hear), ExitStack() as opened:
        detected = await detect_agents(settings.agents)
        opened.enter_context(logging_to(logging.StreamHandler() if verbose else to_file(folder)))
        secure_folder(folder, print_warning)
        for note in detected.notes:
            print_warning(note)
        async with invocation.serving(detected, on_broken) as runtime:
            token = load_token(folder, variables().get("HOLDFAST_TOKEN"), runtime.entropy)
            limit = settings.message_bytes_max * ESCAPED_BYTES_PER_BYTE + ENVELOPE_BYTES
            await runtime.health()  # starts the check for damaged pages
            await _load_models(detected.agents)
            life.server, url, code = await _server(runtime, token, listening, folder, limit)
            await runtime.db.write(note_settings(_described(settings.file, listening), by=acting()))
            status = StatusFile(folder, runtime, as_json=as_json)
            reload = partial(_reload, invocation, runtime, make_reloader(invocation, runtime), listening, status)
            # The process may be stopped as soon as it prints `ready`.
            with on_signal(life.end, hangs_up=False), closing(status):
                status.keep()  # `holdfast channels` finds the file once the process is ready
                known = {"url": url, "model": detected.sentence, "agent": runtime.default_agent}
                with listener.serving(owner_of(folder), reload, runtime.tasks):
                    _announce(folder, token, code=code, as_json=as_json, **known)
                    status.open()
                    if not life.is_over:
                        await life.server.run_until_stopped()
    if life.broken is not None:
        raise life.broken
    return OK


def make_reloader(invocation: Invocation, runtime: Runtime) -> "Reloader":
    from holdfast.runtime.reloading import Reloader

    return Reloader(runtime, invocation.settings, invocation.folder, variables())


async def _reload(
    invocation: Invocation, runtime: Runtime, reloader: "Reloader", listening: ServerTable, status: StatusFile
) -> "ReloadReport":
    """Reload the configuration and record it."""
    file = invocation.config_file
    report = await reloader.reload(lambda: load_reading(file))
    digest = _described(file, listening)
    if not report.ok:
        log.warning("config.refused", why=str(report.problems[0]), problems=len(report.problems))
        await record_refusal(runtime.db, Act.CONFIG_CHANGED, digest, report.problems[0].code)
        return report
    log.info("config.reloaded", applied=len(report.applied), restart=len(report.restart))
    if report.applied or report.restart:
        await runtime.db.write(record_action(Act.CONFIG_CHANGED, digest, by=acting()))
    status.open()  # new agents may have MCP servers
    await _load_models(runtime.serving)
    return report


async def _load_models(agents: "Agents") -> None:
    """Load the libraries of the models, so that the first answer takes no longer than later ones."""
    for model in agents.connected:
        try:
            await model.load()
        except HoldfastError as error:  # other agents serve, and each request reports it
            print_warning(str(error))


async def _server(
    runtime: Runtime, token: Token, listening: ServerTable, folder: Path, limit: int
) -> "tuple[HttpServer, str, str]":
    """The server, its URL, and a one-time login code."""
    import holdfast
    from holdfast.api.app import Setup, make_app
    from holdfast.api.auth.guard import Names
    from holdfast.api.limits.connections import fitted
    from holdfast.api.server import HttpServer, address_of, bind, url_of

    names = Names(listening.public_hosts, listening.trusted_proxies)
    is_public = not address_of(listening.host).is_loopback
    if is_public:
        await _check_public(runtime, token, listening)
    socket = bind(listening.host, listening.port, public=is_public)
    app = make_app(
        runtime,
        Setup(
            token=token.value,
            version=holdfast.__version__,
            body_bytes_max=limit,
            names=names,
            limits=fitted(listening.limits),
            wal_bytes=lambda: _size_of(folder / WAL),
        ),
    )
    server = HttpServer(app, socket, runtime.clock, frame_bytes_max=limit)
    return server, url_of(socket), app.logins.new_code()


async def _check_public(runtime: Runtime, token: Token, listening: ServerTable) -> None:
    """A public server needs a chosen token and a public host name. Raises `PublicBindRefused`."""
    now = runtime.clock.now()
    made = any(one.revoked_at is None and not one.has_expired(now) for one in await runtime.db.read(list_tokens()))
    if token.file is not None and not made:
        raise PublicBindRefused(f"{listening.host} is reachable from other machines, but no token was chosen")
    if not listening.public_hosts:
        raise PublicBindRefused(f"{listening.host} is reachable from other machines, but --public-host is missing")


def _described(file: Path | None, listening: ServerTable) -> str:
    """The settings for the audit trail: the checksum of the file, which contains no secrets, and the address."""
    try:
        known = "no file" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:  # it was removed after it was read
        known = "of a file that is gone"
    names = " ".join((*listening.public_hosts, *listening.trusted_proxies))
    return f"sha256 {known}, at {listening.host} {names}".strip()


def _size_of(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


def _announce(folder: Path, token: Token, *, url: str, code: str, model: str, agent: str, as_json: bool) -> None:
    """Print the address. The last line begins with `ready`, for which scripts may wait. Secrets need a terminal."""
    kept = str(token.file) if token.file else None
    if as_json:
        print_json(
            {
                "event": "ready",
                "url": url,
                "data": str(folder),
                "pid": os.getpid(),
                "token_file": kept,
                "model": model,
                "agent": agent,
            }
        )
        return
    bearer = f"$(cat '{token.file}')" if token.file else "$HOLDFAST_TOKEN"
    shown = f"{token.value} (kept in {kept})" if sys.stdout.isatty() else f"in {kept}"
    browser = f"{url}/#code={code}" if sys.stdout.isatty() else f"{url}/ (log in with the token)"
    named, to = ("", "") if agent == "main" else (f'"agent": "{agent}", ', f" --agent {agent}")
    lines = [
        f"data     {folder}",
        f"token    {shown if kept else 'from HOLDFAST_TOKEN'}",
        f"model    {model}",
        f"log      {folder / FILE}",
        "",
        f"chat     {browser}",
        f"console  {url}/console (the same login)",
        "",
        "Or send a message from another terminal:",
        f'  curl {url}/v1/messages -H "Authorization: Bearer {bearer}" \\',
        "    -H 'Content-Type: application/json' \\",
        f"""    -d '{{{named}"chat": "hello", "id": "1", "text": "My cat is called Byron."}}'""",
        f"or talk with `holdfast chat{to}`. Ctrl-C stops the server; accepted messages are kept.",
        "",
        f"ready    {url}",
    ]
    print("\n".join(lines), flush=True)
