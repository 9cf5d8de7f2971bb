"""`holdfast up`: serve the data folder over HTTP on loopback until told to stop."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import Config, Data, Json

if TYPE_CHECKING:
    from holdfast.channels.http.server import HttpServer
    from holdfast.channels.http.token import Token
    from holdfast.core.errors import StoreBroken

PORT = 7420
ESCAPED_BYTES_PER_BYTE = 6  # JSON may write any byte as \u00xx
ENVELOPE_BYTES = 64 * 1024
TOKEN_CHARS_ADVISED = 16


def up(
    *,
    config: Config = None,
    data: Data = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = PORT,
    host: Annotated[str, typer.Option("--host", help="A loopback address.")] = "127.0.0.1",
    verbose: Annotated[bool, typer.Option("--verbose", help="Log to stderr instead of the data folder.")] = False,
    as_json: Json = False,
) -> None:
    """Run Holdfast here, with its HTTP API.

    Answers messages and serves the API on loopback until Ctrl-C.

    HOLDFAST_TOKEN sets the bearer token; otherwise one is made and kept in the data folder.

    \b
    Examples:
      holdfast up
      holdfast up --data ./data --port 7421
      HOLDFAST_TOKEN=... holdfast up --config holdfast.toml
    """
    from holdfast.cli.running import run

    run(lambda: _up(config, data, port, host, verbose=verbose, as_json=as_json), as_json=as_json)


class Life:
    """Why the server ends: it was asked to, or the store broke."""

    def __init__(self) -> None:
        self.broken: StoreBroken | None = None
        self.server: HttpServer | None = None

    def end(self) -> None:
        if self.server is not None:
            self.server.stop()

    def break_off(self, error: "StoreBroken") -> None:
        from holdfast import log

        log.error("store.broken", why=str(error))
        self.broken = error
        self.end()


async def _up(config: Path | None, data: Path | None, port: int, host: str, *, verbose: bool, as_json: bool) -> int:
    import asyncio
    import os

    import holdfast
    from holdfast.channels.http.app import make_app
    from holdfast.channels.http.server import HttpServer, bind, url_of
    from holdfast.channels.http.token import load_token
    from holdfast.cli.logs import logging_to, to_file, to_stderr
    from holdfast.cli.opening import config_of, folder_of, serving
    from holdfast.cli.running import OK
    from holdfast.cli.signals import on_signal

    folder = folder_of(data)
    settings = config_of(config, folder)
    life, loop = Life(), asyncio.get_running_loop()

    def on_broken(error: "StoreBroken") -> None:  # on the writer's thread
        loop.call_soon_threadsafe(life.break_off, error)

    with logging_to(to_stderr() if verbose else to_file(folder)):
        async with serving(folder, settings, on_broken) as runtime:
            token = load_token(folder, os.environ.get("HOLDFAST_TOKEN"), runtime.entropy)
            listening = bind(host, port)
            app = make_app(
                runtime,
                token=token.value,
                clock=runtime.clock,
                version=holdfast.__version__,
                body_bytes_max=settings.message_bytes_max * ESCAPED_BYTES_PER_BYTE + ENVELOPE_BYTES,
            )
            life.server = HttpServer(app, listening)
            _announce(folder, url_of(listening), token, as_json=as_json)
            with on_signal(life.end):
                if life.broken is None:
                    await life.server.run_until_stopped()
    if life.broken is not None:
        raise life.broken
    return OK


def _announce(folder: Path, url: str, token: "Token", *, as_json: bool) -> None:
    """The last line is `ready`: whoever started the process may wait for it."""
    import os

    from holdfast.cli.output import print_json

    kept = str(token.file) if token.file else None
    if as_json:
        print_json(
            {
                "event": "ready",
                "url": url,
                "data": str(folder),
                "pid": os.getpid(),
                "token_file": kept,
                "model": "practice",
            }
        )
        return
    bearer = f"$(cat '{token.file}')" if token.file else "$HOLDFAST_TOKEN"
    shown = f"{token.value} (kept in {kept})" if sys.stdout.isatty() else f"in {kept}"
    lines = [
        f"Holdfast keeps its data in {folder}",
        f"token    {shown if kept else 'from HOLDFAST_TOKEN'}",
        "model    practice: an offline stand-in that remembers and repeats what it is told",
        f"log      {folder / 'holdfast.log'}",
        "",
        "Say something, in another terminal:",
        f'  curl {url}/v1/messages -H "Authorization: Bearer {bearer}" \\',
        """    -d '{"chat": "hello", "id": "1", "text": "My cat is called Byron."}'""",
        "or talk with `holdfast chat`. Ctrl-C stops; nothing that was accepted is lost.",
        "",
        f"ready    {url}",
    ]
    print("\n".join(lines), flush=True)
    if not kept and len(token.value) < TOKEN_CHARS_ADVISED:
        print(f"warning: HOLDFAST_TOKEN has fewer than {TOKEN_CHARS_ADVISED} characters", file=sys.stderr, flush=True)
