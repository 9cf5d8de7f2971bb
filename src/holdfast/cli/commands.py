"""The commands, one line each. Their files import heavy things inside the function, so that `--help` stays quick."""

from typing import Annotated

import typer

from holdfast.cli.approvals import approvals_app, approve, deny
from holdfast.cli.attachment import attachment
from holdfast.cli.audit import audit_app
from holdfast.cli.backfill import backfill, rebuild
from holdfast.cli.channels import channels
from holdfast.cli.chat import chat
from holdfast.cli.compress import compress
from holdfast.cli.configuration import config_app
from holdfast.cli.context import context
from holdfast.cli.deliveries import deliveries
from holdfast.cli.encryption import decrypt, encrypt, log, rekey
from holdfast.cli.eval import eval_app
from holdfast.cli.finalisations import finalisations, refinish
from holdfast.cli.forget import forget, forget_status
from holdfast.cli.health import health
from holdfast.cli.identity import link, links, move, unlink
from holdfast.cli.init import init
from holdfast.cli.logins import logins
from holdfast.cli.memory import memory
from holdfast.cli.pairing import pair, pairs, unpair
from holdfast.cli.recall import recall
from holdfast.cli.replay import replay
from holdfast.cli.replies import replies, resend
from holdfast.cli.review import review as _review  # noqa: F401 - adds its commands to `memory`
from holdfast.cli.send import send
from holdfast.cli.sessions import sessions
from holdfast.cli.show import show
from holdfast.cli.sim import sim
from holdfast.cli.spend import spend
from holdfast.cli.token import token
from holdfast.cli.tools import tools
from holdfast.cli.trace import trace
from holdfast.cli.up import up
from holdfast.cli.usage import UsageGroup
from holdfast.cli.version import tell_version, version

COMMANDS = (
    init,
    up,
    chat,
    send,
    trace,
    attachment,
    sessions,
    show,
    context,
    compress,
    recall,
    approve,
    deny,
    channels,
    tools,
    replies,
    resend,
    deliveries,
    spend,
    replay,
    backfill,
    rebuild,
    finalisations,
    refinish,
    forget,
    forget_status,
    pair,
    pairs,
    unpair,
    link,
    unlink,
    links,
    move,
    health,
    log,
    encrypt,
    rekey,
    decrypt,
    sim,
    version,
)

app = typer.Typer(
    cls=UsageGroup,
    help="Holdfast: a session-and-memory runtime for agents that loses nothing it has acknowledged.",
    epilog="Exit codes: 0 done, 1 your turn to act, 2 wrong usage, 3 the audit found a contradiction, "
    "4 an approval is waited for, 70 our fault.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help costs a third of the time
    pretty_exceptions_enable=False,
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(approvals_app)
app.add_typer(audit_app)
app.add_typer(config_app)
app.add_typer(memory)
app.add_typer(token)
app.add_typer(logins)
app.add_typer(eval_app)


@app.callback()
def holdfast(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Holdfast: a session-and-memory runtime for agents that loses nothing it has acknowledged."""
