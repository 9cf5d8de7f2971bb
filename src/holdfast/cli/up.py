"""`holdfast up`: serve the data folder over HTTP on loopback until told to stop."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Config, Data, Json

if TYPE_CHECKING:
    from holdfast.api.auth.operator_token import Token
    from holdfast.api.limits.server_limits import ServerLimits
    from holdfast.api.server import HttpServer
    from holdfast.config import Config as Settings
    from holdfast.config import ServerTable
    from holdfast.inbox.channel_status import ServerStanding, Standing
    from holdfast.kernel.errors import StoreBroken
    from holdfast.runtime.runtime import Runtime

HOST, PORT = "127.0.0.1", 7420
ESCAPED_BYTES_PER_BYTE = 6  # JSON may write any byte as \u00xx
ENVELOPE_BYTES = 64 * 1024
WAL = "holdfast.db-wal"


def up(
    *,
    config: Config = None,
    data: Data = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.", show_default=str(PORT)),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.", show_default=HOST)] = None,
    public_host: Annotated[
        list[str] | None,
        typer.Option(
            "--public-host", help="A name that others reach this server by; may be repeated.", show_default=""
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy", help="A proxy whose word on who the client is counts; may be repeated.", show_default=""
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log to stderr instead of the data folder.")] = False,
    as_json: Json = False,
) -> None:
    """Run Holdfast here, with its HTTP API and a page to chat.

    Answers messages and serves the API on loopback until Ctrl-C. To serve other machines, name the host with
    --public-host and bring a token of your own (HOLDFAST_TOKEN, or one made with `holdfast token new`).

    HOLDFAST_TOKEN sets the operator's token, 32 random characters or more; otherwise one is made and kept in the data
    folder.

    \b
    Examples:
      holdfast up
      holdfast up --data ./data --port 7421
      HOLDFAST_TOKEN=... holdfast up --config holdfast.toml
      HOLDFAST_TOKEN=... holdfast up --host 0.0.0.0 --public-host chat.example.org
    """
    from holdfast.cli.running import run

    asked = Asked(host, port, tuple(public_host or ()), tuple(trusted_proxy or ()))
    run(lambda: _up(config, data, asked, verbose=verbose, as_json=as_json), as_json=as_json)


@dataclass(frozen=True)
class Asked:
    """What the command line says of where to listen; what it does not say is the configuration's."""

    host: str | None
    port: int | None
    public_hosts: tuple[str, ...]
    trusted_proxies: tuple[str, ...]

    def place(self, server: "ServerTable") -> "Place":
        port = self.port if self.port is not None else server.port
        return Place(
            host=self.host or server.host or HOST,
            port=PORT if port is None else port,
            public_hosts=self.public_hosts or server.public_hosts,
            trusted_proxies=self.trusted_proxies or server.trusted_proxies,
            limits=server.limits.limits(),
        )


@dataclass(frozen=True)
class Place:
    """Where to listen, and under which names."""

    host: str
    port: int
    public_hosts: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    limits: "ServerLimits"


class Life:
    """Why the server ends: it was asked to, or the store broke."""

    def __init__(self) -> None:
        self.broken: StoreBroken | None = None
        self.server: HttpServer | None = None

    def end(self) -> None:
        if self.server is not None:
            self.server.stop()

    def break_off(self, error: "StoreBroken") -> None:
        from holdfast.kernel import log

        log.error("store.broken", why=str(error))
        self.broken = error
        self.end()


async def _up(config: Path | None, data: Path | None, asked: Asked, *, verbose: bool, as_json: bool) -> int:
    """Everything that is wrong with the configuration is said at once, as `holdfast config check` says it."""
    from holdfast.cli.configuration import explain
    from holdfast.cli.opening import config_of, folder_of
    from holdfast.kernel.errors import ConfigInvalid

    folder = folder_of(data)
    settings = config_of(config, folder)
    try:
        return await _serve(folder, settings, asked, verbose=verbose, as_json=as_json)
    except ConfigInvalid as error:
        return await explain(error, settings, folder, as_json=as_json)


async def _serve(folder: Path, settings: "Settings", asked: Asked, *, verbose: bool, as_json: bool) -> int:
    import asyncio
    from contextlib import closing

    from holdfast.api.auth.operator_token import load_token
    from holdfast.audit.action_sql import note_settings
    from holdfast.audit.actor import acting
    from holdfast.cli.logs import logging_to, to_file, to_stderr
    from holdfast.cli.opening import serving
    from holdfast.cli.running import OK
    from holdfast.cli.signals import on_signal
    from holdfast.cli.status_file import Bulletin
    from holdfast.kernel.hardening import variables
    from holdfast.runtime.app import find_crew, secure_folder

    crew, place = await find_crew(settings.agents), asked.place(settings.server)
    life, loop = Life(), asyncio.get_running_loop()

    def on_broken(error: "StoreBroken") -> None:  # on the writer's thread
        loop.call_soon_threadsafe(life.break_off, error)

    with logging_to(to_stderr() if verbose else to_file(folder)):
        secure_folder(folder, _warn)
        for note in crew.notes:
            _warn(note)
        async with serving(folder, settings, crew, on_broken) as runtime:
            token = load_token(folder, variables().get("HOLDFAST_TOKEN"), runtime.entropy)
            limit = settings.message_bytes_max * ESCAPED_BYTES_PER_BYTE + ENVELOPE_BYTES
            await runtime.health()  # begins to look for damaged pages, whether or not anybody will ask
            life.server, url, code = await _server(runtime, token, place, folder, limit)
            await runtime.db.write(note_settings(_told_of(settings, place), by=acting()))
            bulletin = Bulletin(folder, runtime, _say_json if as_json else _say)
            with on_signal(life.end), closing(bulletin):  # whoever reads `ready` may say stop at once
                bulletin.keep()  # `holdfast channels` finds it from the ready line on
                _announce(folder, Start(url, token, code, crew.sentence, runtime.default_agent), as_json=as_json)
                bulletin.open()
                if life.broken is None:
                    await life.server.run_until_stopped()
    if life.broken is not None:
        raise life.broken
    return OK


async def _server(
    runtime: "Runtime", token: "Token", place: Place, folder: Path, limit: int
) -> "tuple[HttpServer, str, str]":
    """The server, its address, and a code to log in with once."""
    import holdfast
    from holdfast.api.app import Setup, make_app
    from holdfast.api.auth.guard import Names
    from holdfast.api.limits.open_files import fitted
    from holdfast.api.metrics import Sources
    from holdfast.api.server import HttpServer, address_of, bind, url_of

    names = Names(place.public_hosts, place.trusted_proxies)
    is_public = not address_of(place.host).is_loopback
    if is_public:
        await _check_public(runtime, token, place)
    listening = bind(place.host, place.port, public=is_public)
    app = make_app(
        runtime,
        Setup(
            token=token.value,
            version=holdfast.__version__,
            body_bytes_max=limit,
            clock=runtime.clock,
            entropy=runtime.entropy,
            tasks=runtime.tasks,
            names=names,
            limits=fitted(place.limits),
            hooks=runtime.exchange,
            sources=Sources(
                wal_bytes=lambda: _size_of(folder / WAL),
                channels=runtime.exchange.connected,
                servers=runtime.tool_servers,
            ),
        ),
    )
    server = HttpServer(app, listening, runtime.clock, frame_bytes_max=limit)
    return server, url_of(listening), app.logins.new_code()


async def _check_public(runtime: "Runtime", token: "Token", place: Place) -> None:
    """A server that other machines reach needs a token that somebody chose, and a name. Raises `PublicBindRefused`."""
    from holdfast.api.auth.access_token_sql import list_tokens
    from holdfast.api.errors import PublicBindRefused

    now = runtime.clock.now()
    made = any(one.revoked_at is None and not one.has_expired(now) for one in await runtime.db.read(list_tokens()))
    if token.file is not None and not made:
        raise PublicBindRefused(f"{place.host} can be reached from other machines, and nobody has chosen a token")
    if not place.public_hosts:
        raise PublicBindRefused(f"{place.host} can be reached from other machines, and no --public-host is named")


def _told_of(settings: "Settings", place: Place) -> str:
    """What the audit trail says of the settings: the checksum of the file, which holds no secret, and the address."""
    import hashlib

    file = "no file" if settings.file is None else hashlib.sha256(settings.file.read_bytes()).hexdigest()
    names = " ".join((*place.public_hosts, *place.trusted_proxies))
    return f"sha256 {file}, at {place.host} {names}".strip()


def _size_of(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


@dataclass(frozen=True)
class Start:
    """What there is to say when it is ready."""

    url: str
    token: "Token"
    code: str  # to log in with once
    model: str  # who answers, in a sentence
    agent: str  # whom a message is for that names nobody


def _warn(sentence: str) -> None:
    from holdfast.cli.output import visible

    print(visible(f"warning: {sentence}"), file=sys.stderr, flush=True)


def _say(one: "Standing | ServerStanding") -> None:
    from holdfast.cli.output import visible

    print(visible(one.sentence), flush=True)


def _say_json(one: "Standing | ServerStanding") -> None:
    import msgspec

    from holdfast.api.shapes.channels import standing_view
    from holdfast.api.shapes.tool_servers import server_view
    from holdfast.cli.output import print_json
    from holdfast.inbox.channel_status import ServerStanding

    if isinstance(one, ServerStanding):
        print_json({"event": "mcp", **msgspec.structs.asdict(server_view(one))})
    else:
        print_json({"event": "channel", **msgspec.structs.asdict(standing_view(one))})


def _announce(folder: Path, start: Start, *, as_json: bool) -> None:
    """It ends with `ready`: whoever started the process may wait for it. Secrets are for a terminal only."""
    import os

    from holdfast.cli.output import print_json

    url, token = start.url, start.token
    kept = str(token.file) if token.file else None
    if as_json:
        print_json(
            {
                "event": "ready",
                "url": url,
                "data": str(folder),
                "pid": os.getpid(),
                "token_file": kept,
                "model": start.model,
                "agent": start.agent,
            }
        )
        return
    bearer = f"$(cat '{token.file}')" if token.file else "$HOLDFAST_TOKEN"
    shown = f"{token.value} (kept in {kept})" if sys.stdout.isatty() else f"in {kept}"
    browser = f"{url}/#code={start.code}" if sys.stdout.isatty() else f"{url}/ (log in with the token)"
    named, to = ("", "") if start.agent == "main" else (f'"agent": "{start.agent}", ', f" --agent {start.agent}")
    lines = [
        f"Holdfast keeps its data in {folder}",
        f"token    {shown if kept else 'from HOLDFAST_TOKEN'}",
        f"model    {start.model}",
        f"log      {folder / 'holdfast.kernel.log'}",
        "",
        f"chat     {browser}",
        "",
        "Or say something, in another terminal:",
        f'  curl {url}/v1/messages -H "Authorization: Bearer {bearer}" \\',
        "    -H 'Content-Type: application/json' \\",
        f"""    -d '{{{named}"chat": "hello", "id": "1", "text": "My cat is called Byron."}}'""",
        f"or talk with `holdfast chat{to}`. Ctrl-C stops; nothing that was accepted is lost.",
        "",
        f"ready    {url}",
    ]
    print("\n".join(lines), flush=True)
