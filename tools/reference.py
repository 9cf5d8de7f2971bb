"""Generate the reference pages of the documentation from the code.

    python tools/reference.py           write docs/reference/*.md and the diagram in docs/explanation/turns.md
    python tools/reference.py --check   only list the pages that are out of date

tests/test_docs.py fails while a page is out of date. The pages take their text from the code; descriptions that the
code does not contain are in the tables below, and an item without a description is an error.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

import msgspec  # noqa: E402

import holdfast  # noqa: E402
from holdfast import config  # noqa: E402
from holdfast.api.limits.server_limits import ServerLimits  # noqa: E402
from holdfast.audit.action import Act, ActorKind  # noqa: E402
from holdfast.inbox.message import MessageState  # noqa: E402
from holdfast.kernel import log  # noqa: E402
from holdfast.kernel.errors import HoldfastError, Remedy  # noqa: E402
from holdfast.sessions.command import HELP, SIGNALS, CommandVerb  # noqa: E402
from holdfast.sessions.command_rights import NEEDS, CommandPlace, Needs, Rank, Speaker, judge  # noqa: E402
from holdfast.sessions.session import SessionState  # noqa: E402
from holdfast.turns.turn import CLOSED, TRANSITIONS, Phase, TurnEvent  # noqa: E402

DOCS = ROOT / "docs"
MARK = "<!-- Written by tools/reference.py. Change the code, then run it again. -->"
BEGIN, END = "<!-- begin: turn diagram, by tools/reference.py -->", "<!-- end: turn diagram -->"
HELP_COLUMNS = 100
CLASS = re.compile(r"^class (\w+)\(([^)]*)\)", re.MULTILINE)

# --- descriptions that the code does not contain ---------------------------------------------------------------------

REMEDIES = {
    Remedy.RETRY: "Retry: the same call may succeed later",
    Remedy.CORRECT: "Correct: the caller must change the request",
    Remedy.REPAIR: "Repair: the operator must change the configuration, the disk or the data",
    Remedy.REPORT: "Report: please report it to the maintainers",
}
MESSAGE_STATES = {
    MessageState.WAITING: "accepted and durable; its turn has not started",
    MessageState.IN_TURN: "an open turn is answering it; a crashed turn keeps this state until it is resumed",
    MessageState.ANSWERED: "its turn was committed",
    MessageState.COMMAND: "a conversation command that was applied",
    MessageState.OBSERVED: "journaled without a turn, because the message did not address the agent",
    MessageState.HELD: "journaled without a turn, because too many consecutive turns involved no human",
    MessageState.REFUSED: "not accepted; recorded only for platforms that cannot be told about a refusal directly",
    MessageState.FAILED: "its turn ended without an answer, and the sender was notified",
    MessageState.INTERRUPTED: "`/stop` or a later message ended its turn, or an operator gave it up before its turn",
}
UNFINISHED = {MessageState.WAITING, MessageState.IN_TURN}
SESSION_STATES = {
    SessionState.OPEN: "the session can be continued",
    SessionState.EXPIRING: "memory is being extracted from its epoch; a message reopens it",
    SessionState.CLOSED: "its epoch has ended; `/resume` starts the next one",
    SessionState.DELETED: "closed, and everything said in it is erased",
}
REPLY_STATES = {
    "pending": "durable; nothing has been sent yet",
    "attempting": "sending has started; its first byte may have been sent",
    "delivered": "the platform confirmed it; over HTTP, a reply is delivered as soon as it is durable. "
    "With `decided_by`: a person said that it arrived",
    "uncertain": "whether it arrived is unknown",
    "failed": "the platform refused it, or it was erased before it was sent. With `decided_by`: a person gave it up",
}
DELIVERY_STATES = {
    "scheduled": "waiting for its next attempt",
    "sending": "a request is in progress",
    "delivered": "the provider stored it and returned a receipt",
    "uncertain": "it may have arrived; the provider is queried before it is sent again",
    "parked": "the provider refused it, or the outcome stayed unknown; an operator can retry it with `holdfast "
    "replay`. With `decided_by`: a person gave it up",
    "dropped": "undone, deleted or empty before it was sent, or of a kind that the provider does not store",
    "retracted": "removed from the provider after it was delivered",
}
PHASES = {
    Phase.THINKING: "the model is generating",
    Phase.ACTING: "tools are running",
    Phase.AWAITING: "a tool call waits for a human's approval; no worker holds a claim meanwhile",
    Phase.COMMITTED: "answered; the turn no longer changes",
    Phase.FAILED: "ended without an answer",
    Phase.INTERRUPTED: "`/stop` or a later message ended the turn",
}
TURN_EVENTS = {
    TurnEvent.RESUMED: "a worker resumes the turn and increments its attempt",
    TurnEvent.RECALLED: "memories were recalled, and those shown to the model were journaled",
    TurnEvent.JOINED: "a message that arrived during the turn joins it (`steer`)",
    TurnEvent.CALLED: "the model requested tool calls",
    TurnEvent.STEPPED: "a tool started or returned, and others are outstanding",
    TurnEvent.RETURNED: "every tool call has a result",
    TurnEvent.ASKED: "a call requires a human's approval; the request was posted in the chat",
    TurnEvent.DECIDED: "the call was approved and starts, or was denied and others are outstanding",
    TurnEvent.ANSWERED: "the model answered",
    TurnEvent.FAILED: "the last attempt ended without an answer",
    TurnEvent.INTERRUPTED: "`/stop`, or a later message if `turns.arrivals` is `interrupt`",
}
ACTORS = {
    ActorKind.OPERATOR: "the operator's own token: `HOLDFAST_TOKEN`, or the file in the data folder",
    ActorKind.TOKEN: "an access token, by its id, with its label",
    ActorKind.PRINCIPAL: "the sender of a chat message",
    ActorKind.USER: "a user of the machine, on the command line",
    ActorKind.PROGRAM: "a Python program that uses the library and names no actor",
    ActorKind.SYSTEM: "a platform that changed the id of a chat, by the name of its channel",
    ActorKind.ANONYMOUS: "an HTTP client without a valid token, when logging in",
}
SETTINGS = {
    "model": "the model: a name such as `openai:gpt-5.2` or `practice`, or a table; by default the first one that is "
    "available",
    "instructions": "the system instructions of every conversation",
    "instructions_file": "a file with the instructions, such as `SOUL.md`; relative to the configuration file",
    "context_tokens": "the size of the model's context window, in tokens",
    "daily_spend_usd": "the limit for model costs per day (UTC), in US dollars; null for no limit",
    "tools": "the built-in tools of the agent; null for all",
    "talks_to": "the agents that this agent may message; for its messages they use only tools that both have",
    "hops_max": "how often a message may be passed from agent to agent",
    "on_doubt": "what to do with a reply that may or may not have been posted: `resend` it once, marked as uncertain, "
    "or `hold` it",
    "compression.soft": "share of the context window above which a summary is prepared in the background",
    "compression.hard": "share of the context window at which a turn waits for the summary",
    "compression.keep": "share of the context window that is kept verbatim",
    "turns.arrivals": "how to handle a message that arrives during a turn",
    "turns.turn_attempts_max": "how many attempts a turn has before it ends as failed",
    "turns.model_wait_s": "the time limit for one response of the model, in seconds",
    "limits.message_bytes": "the largest accepted message, in bytes of UTF-8",
    "limits.mailbox_depth": "how many messages may wait in one chat",
    "limits.messages_per_minute": "how many messages one chat may send in a minute",
    "limits.attachments_bytes": "the storage for the agent's attachments, in bytes; when it is full, only names are "
    "stored",
    "recall.enabled": "whether memories are recalled before the model is called",
    "recall.budget_ms": "how long a turn waits for memory providers; slower ones are skipped, and the turn records it",
    "recall.limit": "the maximum number of recalled memories per turn",
    "recall.chars_max": "the maximum number of characters of recalled memories per turn",
    "recall.private_in_groups": "whether private conversations may be recalled in group chats",
    "expiry.idle_minutes": "a session without messages for this long is ended; null for never",
    "expiry.daily_at": "the time of day, such as `04:00`, at which idle sessions of the previous day are ended",
    "expiry.time_zone": "the time zone of `daily_at`",
    "groups.groups": "whether a group shares one conversation or each sender has a separate one",
    "groups.threads": "whether a thread shares one conversation or each sender has a separate one",
    "groups.mention_only": "whether only messages that address the agent are answered",
    "groups.observe": "whether the other messages are kept as context",
    "access.door": "how to treat an unknown sender in a private chat: `pair` (explain how to request access), `closed` "
    "(ignore) or `open` (admit)",
    "access.allow": "the senders who may talk to the agent, by platform id: `telegram:123456789`",
    "access.group_door": "how to treat unknown senders in groups",
    "access.operators": "the senders who may use every command in every chat and group: `telegram:123456789`",
    "access.allow_chats": "groups in which every member may talk to the agent: `telegram:-1001234567890`",
    "approval.tools": "tools that require approval, in addition to those that are always dangerous; `*` for all",
    "approval.approvers": "who may approve; by default the sender of the message",
    "approval.wait_minutes": "how long a call waits for approval before it is denied",
    "channels": "the bot accounts, one table each: [agents.NAME.channels.CHANNEL]",
    "mcp": "the MCP servers whose tools the agent may use, one table each: [agents.NAME.mcp.SERVER]",
    "memory": "the memory providers, one table each: [agents.NAME.memory.PROVIDER], see below; and `memory.sharing`: "
    '"person" (the default) shows each person only their own memories, "agent" shows all memories to everyone',
}

SERVER_SETTINGS = {
    "host": "the address on which the HTTP API listens; loopback by default",
    "port": "the port; 7420 by default",
    "public_hosts": "the public host names of the reverse proxy",
    "trusted_proxies": "addresses or networks of proxies whose X-Forwarded-For header is trusted",
    "limits.connections_max": "open connections in total; fewer if the system limits open files",
    "limits.operator_connections": "the connections of this total that are reserved for the operator",
    "limits.client_connections_max": "open connections per client; does not apply to this machine and to trusted "
    "proxies",
    "limits.half_open_max": "connections that have not sent a complete request head",
    "limits.client_half_open_max": "the same, per client",
    "limits.client_requests_max": "concurrent requests per client; a stream or WebSocket counts until it ends",
    "limits.token_requests_max": "concurrent requests per token",
    "limits.body_bytes_max": "bytes of request bodies in memory at once; at least the size of one maximum body",
    "limits.client_body_bytes_max": "the same, per client",
    "limits.token_body_bytes_max": "the same, per token",
    "limits.client_bytes_per_minute": "bytes of request bodies per client and minute",
    "limits.token_bytes_per_minute": "bytes of request bodies per token and minute",
    "limits.client_chats_per_hour": "new chats per client and hour",
    "limits.token_chats_per_hour": "new chats per token and hour",
}

PROVIDER_SETTINGS = {
    "local": "The embedded full-text index; needs no server. It is built from the journal and can be rebuilt.",
    "files": "MEMORY.md, USER.md and SOUL.md in `agents/NAME/` of the data folder, which people can read and edit.",
    "hindsight": "A Hindsight server, 0.8.6 or later. Needs the extra `holdfast[hindsight]`.",
    "honcho": "A Honcho server. Needs the extra `holdfast[honcho]`.",
    "hermes": "A memory provider of Hermes Agent, hosted with the interpreter of Hermes.",
    "python": "the Python interpreter of Hermes",
    "provider": "the name of the hosted provider, as in `memory.provider` of Hermes",
    "home": "the home folder of Hermes",
    "recall": "whether the provider is asked for memories; only for providers that keep people apart",
    "url": "the URL of the server; redirects are not followed",
    "bank": "the name of the bank; may contain {agent}, {platform}, {chat}, {user} and {session}",
    "every_turns": "how many turns are delivered together; a compression or the end of a session delivers pending "
    "turns immediately",
    "max_wait_s": "pending turns are delivered after this time, even if there are fewer",
    "api_key_env": "the environment variable that contains the API key",
    "send_key_over_plain_http": "allows sending the API key to another machine over unencrypted http://",
    "recall_budget": "how thoroughly the server searches",
    "recall_max_tokens": "the maximum size of the server's results, in tokens",
    "timeout_s": "the time limit of one request, in seconds",
    "settle_s": "the time limit of one delivery, from sending until the server has stored it, in seconds",
    "workspace": "the name of the workspace",
    "strategy": "how sessions without a stable chat are named",
    "titles": "names for sessions with certain titles",
    "peer_prefix": "a prefix for every name",
    "peers": "with `compat`: people who have a separate peer",
    "runtime_peer_prefix": "with `compat`: a prefix for people's ids",
    "compat": "use the same names as Hermes, to continue an existing history",
    "own_sessions": "with `compat`: name sessions without collisions, and only peers as Hermes does",
    "limit": "the maximum number of results of one query",
    "per_user": "whether the notes of each person and chat have files too, in `users/PERSON/` and `chats/CHAT/`",
    "memory_chars": "the maximum size of MEMORY.md, in characters",
    "user_chars": "the maximum size of USER.md, in characters",
}

# --- pieces ------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell_of(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def cell_of(value: object) -> str:
    """A value as a Markdown cell: `<chat>` outside of code would vanish as an unknown tag."""
    pieces = str(value).replace("|", "\\|").split("`")
    return "`".join(piece if position % 2 else piece.replace("<", "&lt;") for position, piece in enumerate(pieces))


def page(title: str, *parts: str) -> str:
    return "\n\n".join([MARK, f"# {title}", *parts]) + "\n"


def told(what: type[Enum], meanings: Mapping[Any, str]) -> list[tuple[str, str]]:
    """Each member with its meaning; raises `KeyError` for a member without one."""
    return [(f"`{one.value}`", meanings[one]) for one in what]


# --- pages -------------------------------------------------------------------------------------------------------


def modules_with_errors() -> list[str]:
    """The modules in which a class stands below HoldfastError: to import all of them takes most of the tool's time."""
    package = Path(holdfast.__path__[0])
    classes = [
        (file, found[1], set(re.findall(r"\w+", found[2])))
        for file in sorted(package.rglob("*.py"))
        for found in CLASS.finditer(file.read_text(encoding="utf-8"))
    ]
    names, known = {HoldfastError.__name__}, 0
    while known != len(names):
        known = len(names)
        names |= {name for _, name, bases in classes if bases & names}
    files = {file.relative_to(package.parent).with_suffix("") for file, name, _ in classes if name in names}
    return sorted(".".join(part for part in file.parts if part != "__init__") for file in files)


def every_error() -> list[type[HoldfastError]]:
    for name in modules_with_errors():
        if name.split(".")[1] not in {"__main__", "testing"}:
            import_module(name)
    found, ends = dict[str, type[HoldfastError]](), [HoldfastError]
    while ends:
        kind = ends.pop()
        if kind.__module__.startswith("holdfast.") and kind is not HoldfastError:
            found.setdefault(kind.code, kind)
        ends += sorted(kind.__subclasses__(), key=lambda one: one.__module__)
    return sorted(found.values(), key=lambda one: one.code)


def errors() -> str:
    from holdfast.api.errors import status_of  # noqa: PLC0415

    every = every_error()
    intro = (
        '`code` is stable: scripts may compare it. Over HTTP an error is `{"error": {"code", "message", "hint"}}` with '
        "the status below; the command line prints the same with `--json`."
    )
    parts = [intro]
    for remedy, title in REMEDIES.items():
        rows = [
            (f"`{kind.code}`", kind.__doc__, kind.hint, status_of(kind(""))) for kind in every if kind.remedy is remedy
        ]
        parts += [f"## {title}", table(("code", "meaning", "what to do", "HTTP"), rows)]
    return page("Errors", *parts)


def events() -> str:
    intro = (
        "Each line of the log is one JSON object with `at` (seconds since 1970), `level`, `event`, and fields: ids, "
        "counts and durations. `session`, `turn`, `fence`, `operation` and `node` are on every line that concerns one. "
        "The log contains no messages; they are in the journal."
    )
    return page(
        "Log events", intro, table(("event", "meaning"), [(f"`{one}`", what) for one, what in log.EVENTS.items()])
    )


def commands() -> str:
    intro = (
        "A message that begins with a slash and one of these words is a command. Commands are processed in order with "
        "the messages around them, except for signals, which take effect when they are accepted. If the word is almost "
        "a command (`/tilte`), the reply names the command that was probably meant; the agent does not see the message "
        "and nothing changes. Any other word after a slash, such as a path, is plain text. Messages of programs are "
        "always plain text."
    )
    rows = [
        (f"`{usage}`", what, "immediately" if verb in SIGNALS else "in order") for verb, (usage, what) in HELP.items()
    ]
    rights = [
        (
            ", ".join(f"`/{verb.value}`" for verb in CommandVerb if NEEDS[verb] is needs),
            *(_right(needs, Speaker(human=True, place=place, rank=rank)) for place, rank in RIGHTS.values()),
            _right(needs, Speaker(human=False, place=CommandPlace.PRIVATE)),
        )
        for needs in Needs
    ]
    head = ("command", *RIGHTS, "a program")
    return page(
        "Conversation commands",
        intro,
        table(("command", "what it does", "when"), rows),
        "## Who may give them",
        RIGHTS_TEXT,
        table(head, rights),
        RIGHTS_MORE,
    )


RIGHTS = {
    "in a private chat": (CommandPlace.PRIVATE, Rank.MEMBER),
    "an admin in a group": (CommandPlace.GROUP, Rank.ADMIN),
    "a member of a group": (CommandPlace.GROUP, Rank.MEMBER),
    "a sender in an HTTP chat with several senders": (CommandPlace.SHARED, Rank.MEMBER),
}
RIGHTS_TEXT = (
    "A command without permission changes nothing; the reply says who may use it. An operator may use every command in "
    "every chat: a person in `access.operators`, with any of their linked accounts, and the operator's token or a "
    "token with the scope admin. If `approval.approvers` names approvers, only they and the operators may decide "
    "approvals."
)
RIGHTS_MORE = (
    "Own: the sender started every turn that would be undone, repeated or stopped, or requested the tool call. An HTTP "
    "chat counts as private while only one sender has written in it. A program is a bot, another agent, a token "
    "created with `--robot`, or a message with a hop count (`hop`). For commands that need an admin, Holdfast asks the "
    "platform: admins are on Telegram the creator and the administrators, including anonymous ones; on Discord the "
    "owner and members who may administrate or manage the server; on Slack admins and owners of the workspace and the "
    "creator of the channel. If the platform does not respond, the sender counts as a member and is asked to try "
    "again.\n\n`/delete` requires confirmation: the reply says what would be deleted and gives a word, and "
    "`/delete WORD` deletes. The word is valid only for the same person and session, and only until the next message."
)


def _right(needs: Needs, speaker: Speaker) -> str:
    verb = next(verb for verb in CommandVerb if NEEDS[verb] is needs)
    if judge(verb, speaker) is None:
        return "yes"
    return "own" if judge(verb, speaker, owns=True) is None else "no"


def diagram() -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.THINKING.value}"]
    for phase, ways in TRANSITIONS.items():
        targets: dict[Phase, list[str]] = {}
        for event, after in ways.items():
            targets.setdefault(after, []).append(event.value.removeprefix("turn."))
        lines += [f"    {phase.value} --> {after.value}: {', '.join(names)}" for after, names in targets.items()]
    lines += [f"    {phase.value} --> [*]" for phase in Phase if phase in CLOSED]
    return "```mermaid\n" + "\n".join(lines) + "\n```"


def actions() -> str:
    return page(
        "Privileged acts",
        "`holdfast audit actions` and `GET /v1/actions` show them: [the audit trail](../explanation/audit-trail.md).",
        table(("verb", "meaning"), [(f"`{act.stored}`", act.what) for act in Act]),
        "## Actors",
        table(("kind", "meaning"), told(ActorKind, ACTORS)),
    )


def states() -> str:
    messages = [
        (name, "no" if state in UNFINISHED else "yes", what)
        for state, (name, what) in zip(MessageState, told(MessageState, MESSAGE_STATES), strict=True)
    ]
    return page(
        "States",
        "## Messages",
        "`GET /v1/messages/{message}` and `holdfast trace` show them. A final state never changes.",
        table(("state", "final", "meaning"), messages),
        "## Turns",
        diagram(),
        table(("phase", "meaning"), told(Phase, PHASES)),
        table(("event", "meaning"), told(TurnEvent, TURN_EVENTS)),
        "## Replies",
        table(("state", "meaning"), [(f"`{state}`", what) for state, what in REPLY_STATES.items()]),
        "## Deliveries",
        "Deliveries to memory providers. `holdfast deliveries` and `GET /v1/deliveries` list them.",
        table(("state", "meaning"), [(f"`{state}`", what) for state, what in DELIVERY_STATES.items()]),
        "What `delivered` guarantees for each provider; the JSON field `means` has the same text:",
        table(("provider", "`delivered` means"), [(f"`{name}`", what) for name, what in delivered_means().items()]),
        "## Sessions",
        table(("state", "meaning"), told(SessionState, SESSION_STATES)),
    )


def delivered_means() -> dict[str, str]:
    named = ("local", "files", "hindsight", "honcho", "hermes")
    return {name: import_module(f"holdfast.providers.{name}.provider").DELIVERED_MEANS for name in named}


ADAPTERS = {
    "Honcho": "holdfast.providers.honcho.answers",
    "Hindsight": "holdfast.providers.hindsight.answers",
    "Telegram": "holdfast.channels.telegram.answers",
    "Discord": "holdfast.channels.discord.answers",
    "Slack": "holdfast.channels.slack.answers",
}
WHOSE = {True: "yes", False: "no", None: "either"}
NO_ANSWER = (
    "Without a response: if no connection was made, nothing was sent (unreachable, not sent). If the connection was "
    "cut, the response did not arrive in time or cannot be parsed, the outcome is unknown (uncertain, doubtful)."
)


def answers() -> str:
    parts = []
    for name, module in ADAPTERS.items():
        adapter = import_module(module)
        told_first = (adapter.__doc__ or "").split("\n\n", 1)[1].strip()
        rows = [(row.shown, WHOSE[row.own], row.meaning.value, row.says) for row in adapter.ANSWERS]
        parts += [f"## {name}", told_first, table(("status", "from the server itself", "means", "because"), rows)]
    return page(
        "Answers",
        "What the HTTP status of a write proves about its content. The first matching row applies. A response that is "
        "not provably the server's own may come from a proxy, which may still forward the request later.",
        table(
            ("meaning", "what follows"),
            [
                (
                    "refused, declined",
                    "nothing arrived and nothing will: the item is parked or failed, with the reason",
                ),
                ("unreachable, not sent", "nothing arrived, or a duplicate is harmless: the item is retried"),
                (
                    "uncertain",
                    "the provider is queried; if it lacks the item, the item is sent again after a quiet period",
                ),
                (
                    "doubtful",
                    "the reply is resent once, or held; it is a possible duplicate unless its arrival is proved",
                ),
                ("suspect", "the content may be the cause: the attempt counts once the provider accepts another item"),
            ],
        ),
        NO_ANSWER,
        *parts,
    )


def cli() -> str:
    from typer.main import get_command  # noqa: PLC0415
    from typer.testing import CliRunner  # noqa: PLC0415

    from holdfast.cli.commands import app  # noqa: PLC0415
    from holdfast.cli.exit_codes import EXIT_CODES  # noqa: PLC0415

    def help_of(*words: str) -> str:
        plain = {"COLUMNS": str(HELP_COLUMNS), "TERMINAL_WIDTH": str(HELP_COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
        plain |= dict.fromkeys(("HOLDFAST_DATA", "HOLDFAST_CONFIG", "HOLDFAST_TOKEN"), "")
        result = CliRunner(env=plain).invoke(app, [*words, "--help"], prog_name="holdfast")
        if result.exit_code:
            raise RuntimeError(f"holdfast {' '.join(words)} --help: {result.output}")
        return "```text\n" + "\n".join(line.rstrip() for line in result.output.strip().splitlines()) + "\n```"

    codes = ((f"`{code}`", what) for code, what in EXIT_CODES.items())
    parts = [help_of(), "## Exit codes", table(["code", "meaning"], codes)]
    for words in _commands(get_command(app)):
        parts += [f"## holdfast {' '.join(words)}", help_of(*words)]
    return page("Command line", *parts)


def _commands(command: Any, *words: str) -> Iterable[tuple[str, ...]]:  # noqa: ANN401
    """Every visible command below one, with the words that name it."""
    for name, one in getattr(command, "commands", {}).items():
        if not one.hidden:
            yield (*words, name)
            yield from _commands(one, *words, name)


def http() -> str:
    from holdfast.api.openapi import document  # noqa: PLC0415
    from holdfast.api.routes.table import ENDPOINTS  # noqa: PLC0415

    api = document(ENDPOINTS, holdfast.__version__)
    intro = (
        "`holdfast up` serves this API on loopback, by default at `http://127.0.0.1:7420`. Every route with a scope "
        "requires the header `Authorization: Bearer <token>`; `operate` includes `read`, and `admin` everything. "
        "The WebSocket `/v1/ws` is described in [websocket.md](../explanation/websocket.md). Bodies are JSON in UTF-8; "
        "times are milliseconds since 1970, UTC. `GET /openapi.json` returns the same as an OpenAPI document. Errors: "
        "[errors.md](errors.md); states: [states.md](states.md)."
    )
    parts = [intro]
    for path, methods in api["paths"].items():
        for method, about in methods.items():
            parts += [f"## {method.upper()} {path}", f"{about['summary']}.", *_route(about)]
    parts.append("## Shapes")
    for name, schema in api["components"]["schemas"].items():
        parts += [
            f"### {name}",
            *([cleandoc(schema["description"])] if "description" in schema else []),
            _shape(schema) if "properties" in schema else f"One of {_type(schema)}.",
        ]
    return page("HTTP API", *parts)


def _route(about: dict[str, Any]) -> list[str]:
    scope = about.get("x-scope")
    needs = {None: "Requires no token.", "any": "Requires any valid token."}.get(scope, f"Scope: `{scope}`.")
    parts = [needs]
    queries = [one for one in about.get("parameters", ()) if one["in"] == "query"]
    if queries:
        rows = [(f"`{one['name']}`", one["description"]) for one in queries]
        parts.append(table(("query", "meaning"), rows))
    if "requestBody" in about:
        parts.append(f"Body: {_named(about['requestBody'])}.")
    answers = [(status, _named(answer), answer["description"]) for status, answer in about["responses"].items()]
    return [*parts, table(("status", "body", "meaning"), answers)]


def _named(holder: dict[str, Any]) -> str:
    content = holder["content"]
    if "application/json" not in content:
        return f"`{next(iter(content))}`"
    schema = content["application/json"]["schema"]
    return _type(schema) if "$ref" in schema or "anyOf" in schema else "JSON"


def _shape(schema: dict[str, Any]) -> str:
    needed = set(schema.get("required", ()))
    rows = [
        (f"`{name}`", _type(one), "" if name in needed else f"`{msgspec.json.encode(one.get('default')).decode()}`")
        for name, one in schema.get("properties", {}).items()
    ]
    return table(("field", "type", "default"), rows)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{msgspec.json.encode(one).decode()}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any JSON"))


def settings() -> str:
    rows = []
    for name, (kind, default) in _settings(config.AgentTable).items():
        rows.append((f"`{name}`", SETTINGS[name], _bounds(kind), f"`{msgspec.json.encode(default).decode()}`"))
    example = (
        '```toml\n[agents.main]\ninstructions = "You are kind and brief."\n\n[agents.main.compression]\nsoft = 0.5\n\n'
        '[agents.main.turns]\narrivals = "steer"\n```'
    )
    return page(
        "Settings",
        f"`{config.FILE}` in the data folder, or the file that `--config` or `HOLDFAST_CONFIG` names. It is read when "
        "Holdfast starts, and again by `holdfast reload`. Without a file, every valid name is an agent with these "
        "defaults; with a file, only the listed agents exist. Unknown keys and invalid values are refused, with the "
        "name of the key.",
        "Secrets are never written into it: `token_env` names an environment variable, `token_file` a file. "
        "`holdfast init` writes a commented file; `holdfast config check` shows what would run and lists every error.",
        "The settings of an agent are in the table `[agents.NAME]` and the tables below it:",
        table(("setting", "meaning", "values", "default"), rows),
        "For example:",
        example,
        "## Several agents",
        "The table `[defaults]` may have every setting of an agent except for `channels`. An agent takes over each "
        "setting that its own table does not have; tables are merged setting by setting, lists and texts are replaced. "
        "`false` in place of a table below `memory` or `mcp`, as in `mcp.git = false`, leaves out the one of "
        "`[defaults]`.",
        "A table `[models.NAME]` has the settings of a model, with the vendor's name in `name`. Agents refer to it as "
        '`model = "NAME"`; `fallbacks` and `summariser` may do so too. A table `[agents.NAME.model]` without `name` '
        "changes single settings of the model of `[defaults]`.",
        '```toml\n[models.fast]\nname = "openai:gpt-5-mini"\n\n[defaults]\nmodel = "fast"\ncontext_tokens = 64000\n\n'
        "[agents.main]\n\n[agents.poet.model]\ntemperature = 1.2\n```",
        "## The server",
        "Settings of the whole process are in the table `[server]`; options of the command line take precedence.",
        table(("setting", "meaning", "values", "default"), _server_settings()),
        "## Memory providers",
        "Each provider is a table `[agents.NAME.memory.PROVIDER]`; an agent may have several. Without any, an agent "
        "uses `local` and `files` in a data folder, and no provider on PostgreSQL. Other packages can add providers "
        "with the entry point group `holdfast.providers`.",
        *_provider_settings(),
        "## Environment",
        table(
            ("variable", "meaning"),
            [
                ("`HOLDFAST_DATA`", "the data folder, like `--data`"),
                ("`HOLDFAST_CONFIG`", "the configuration file, like `--config`"),
                (
                    "`HOLDFAST_TOKEN`",
                    "the operator's token, 32 or more random characters; by default a generated one in the data folder",
                ),
            ],
        ),
    )


def _server_settings() -> list[tuple[str, ...]]:
    fields = msgspec.structs.fields(config.ServerTable)
    plain = [(one.name, one) for one in fields if one.name != "limits"]
    limits = [(f"limits.{one.name}", one) for one in msgspec.structs.fields(ServerLimits)]
    return [(f"`{name}`", SERVER_SETTINGS[name], _bounds(one.type), _default(one)) for name, one in (*plain, *limits)]


def _provider_settings() -> list[str]:
    from holdfast.providers.files.provider import FilesSettings  # noqa: PLC0415
    from holdfast.providers.hermes.factory import HostedSettings  # noqa: PLC0415
    from holdfast.providers.hindsight.factory import HindsightSettings  # noqa: PLC0415
    from holdfast.providers.honcho.factory import HonchoSettings  # noqa: PLC0415
    from holdfast.providers.local.provider import LocalSettings  # noqa: PLC0415

    shapes: dict[str, type[msgspec.Struct]] = {
        "local": LocalSettings,
        "files": FilesSettings,
        "hindsight": HindsightSettings,
        "honcho": HonchoSettings,
        "hermes": HostedSettings,
    }
    parts = []
    for name, shape in shapes.items():
        rows = [
            (f"`{one.name}`", PROVIDER_SETTINGS[one.name], _bounds(one.type), _default(one))
            for one in msgspec.structs.fields(shape)
        ]
        parts += [f"### {name}", PROVIDER_SETTINGS[name], table(("setting", "meaning", "values", "default"), rows)]
    return parts


def _default(one: Any) -> str:  # noqa: ANN401
    if one.default_factory is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(one.default_factory()).decode()}`"
    return "required" if one.required else f"`{msgspec.json.encode(one.default).decode()}`"


def _settings(shape: type[msgspec.Struct], prefix: str = "") -> dict[str, tuple[Any, object]]:
    found: dict[str, tuple[Any, object]] = {}
    for one in msgspec.structs.fields(shape):
        made = one.default_factory() if one.default_factory is not msgspec.NODEFAULT else None
        if isinstance(made, msgspec.Struct):
            found |= _settings(type(made), f"{prefix}{one.name}.")
        else:
            found[f"{prefix}{one.name}"] = (one.type, one.default if made is None else made)
    return found


def _bounds(kind: object) -> str:
    schema = msgspec.json.schema(kind)
    if "anyOf" in schema:
        schema = next(one for one in schema["anyOf"] if one.get("type") != "null")
    if "$ref" in schema:
        schema = schema["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    if "enum" in schema:
        return ", ".join(f"`{msgspec.json.encode(one).decode()}`" for one in schema["enum"])
    words = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "below {}",
    }
    limits = [text.format(schema[key]) for key, text in words.items() if key in schema]
    names = {
        "string": "text",
        "array": "a list",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "object": "table",
    }
    name = names[schema["type"]]
    return ", ".join([name, *limits])


# --- writing -----------------------------------------------------------------------------------------------------


def with_diagram(text: str) -> str:
    """The page with the current diagram between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


def pages() -> dict[Path, str]:
    turns = DOCS / "explanation" / "turns.md"
    return {
        **{
            DOCS / "reference" / f"{make.__name__}.md": make()
            for make in (errors, events, actions, commands, states, answers, cli, http, settings)
        },
        turns: with_diagram(turns.read_text(encoding="utf-8")),
    }


def outdated() -> list[Path]:
    return [file for file, text in pages().items() if not file.exists() or file.read_text(encoding="utf-8") != text]


def main() -> int:
    stale = outdated()
    if "--check" in sys.argv[1:]:
        for file in stale:
            print(f"{os.fspath(file.relative_to(ROOT))} is out of date: run tools/reference.py", file=sys.stderr)
        return 1 if stale else 0
    for file, text in pages().items():
        if file in stale:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote {os.fspath(file.relative_to(ROOT))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
