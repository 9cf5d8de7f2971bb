"""Write the generated pages of the documentation from the code itself.

    python tools/reference.py           write docs/reference/*.md and the diagram in docs/explanation/turns.md
    python tools/reference.py --check   only say which of them are out of date

tests/test_docs.py fails while a page is out of date. Nothing here is told twice: a page says what the code says, and
the few sentences that the code does not have stand in the tables below, which must name everything that exists.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

import msgspec  # noqa: E402

import holdfast  # noqa: E402
from holdfast import config  # noqa: E402
from holdfast.audit.action import Act, ActorKind  # noqa: E402
from holdfast.inbox.message import MessageState  # noqa: E402
from holdfast.kernel import log  # noqa: E402
from holdfast.kernel.errors import HoldfastError, Remedy  # noqa: E402
from holdfast.sessions.command import HELP, SIGNALS, Verb  # noqa: E402
from holdfast.sessions.command_rights import NEEDS, Needs, Place, Rank, Speaker, judge  # noqa: E402
from holdfast.sessions.session import SessionState  # noqa: E402
from holdfast.turns.turn import CLOSED, TRANSITIONS, Phase, TurnEvent  # noqa: E402

DOCS = ROOT / "docs"
MARK = "<!-- Written by tools/reference.py. Change the code, then run it again. -->"
BEGIN, END = "<!-- begin: turn diagram, by tools/reference.py -->", "<!-- end: turn diagram -->"
HELP_COLUMNS = 100

# --- what the code does not say ----------------------------------------------------------------------------------

REMEDIES = {
    Remedy.RETRY: "Time mends it: the same call may succeed later",
    Remedy.CORRECT: "The caller must act: the call has to be changed",
    Remedy.REPAIR: "The operator must act: configuration, disk or data have to be changed",
    Remedy.REPORT: "We must act: please report it",
}
MESSAGE_STATES = {
    MessageState.WAITING: "accepted and durable; its turn has not begun",
    MessageState.IN_TURN: "an open turn answers it; it stays so while a crashed turn waits to be resumed",
    MessageState.ANSWERED: "its turn was committed",
    MessageState.COMMAND: "it was a conversation command, and has been applied",
    MessageState.OBSERVED: "journaled without a turn, because nobody addressed the agent",
    MessageState.HELD: "journaled without a turn, because too many turns in a row had no human in them",
    MessageState.REFUSED: "not taken; the row says so where a platform cannot be told otherwise",
    MessageState.FAILED: "its turn ended without an answer, and the sender was told",
    MessageState.INTERRUPTED: "its turn was ended by `/stop` or by a later message",
}
UNFINISHED = {MessageState.WAITING, MessageState.IN_TURN}
SESSION_STATES = {
    SessionState.OPEN: "it can be continued",
    SessionState.EXPIRING: "its epoch is being finished; a message reopens it",
    SessionState.CLOSED: "its epoch has ended; `/resume` begins the next",
    SessionState.DELETED: "closed, and everything said in it is blanked",
}
REPLY_STATES = {
    "pending": "durable, and nothing of it has left yet",
    "attempting": "its first byte may have left",
    "delivered": "the platform has it; a reply that is fetched is delivered once it is durable",
    "uncertain": "nobody can say whether it arrived",
    "failed": "it was refused, or blanked before it was sent",
}
DELIVERY_STATES = {
    "scheduled": "waiting for its next try",
    "sending": "a request is under way",
    "delivered": "the provider has it, and gave a receipt",
    "uncertain": "it may have landed: the provider is asked before anything is sent again",
    "parked": "refused by the provider, or nobody can say; it waits for a person and can be replayed",
    "dropped": "undone, deleted or empty before it was sent, or nothing that the provider takes",
    "retracted": "taken back at the provider after it was sent",
}
PHASES = {
    Phase.THINKING: "the model is being asked",
    Phase.ACTING: "tools are being run",
    Phase.AWAITING: "a human is to approve or deny a tool call; nobody holds a claim meanwhile",
    Phase.COMMITTED: "answered; nothing about it changes any more",
    Phase.FAILED: "ended without an answer",
    Phase.INTERRUPTED: "ended by `/stop` or by a later message",
}
TURN_EVENTS = {
    TurnEvent.RESUMED: "a worker takes the turn up again, with attempt + 1",
    TurnEvent.RECALLED: "memory was looked up for it, and what is shown of it was journaled",
    TurnEvent.JOINED: "a message that arrived meanwhile joins (`steer`)",
    TurnEvent.CALLED: "the model asked for tools",
    TurnEvent.STEPPED: "a tool started or returned, and others are still to come",
    TurnEvent.RETURNED: "every tool call has a result",
    TurnEvent.ASKED: "a call needs a human's approval; the question is in the chat",
    TurnEvent.DECIDED: "the call was approved and starts, or was denied and others are still to come",
    TurnEvent.ANSWERED: "the model answered",
    TurnEvent.FAILED: "no answer is to be had",
    TurnEvent.INTERRUPTED: "`/stop`, or a later message where arrivals interrupt",
}
ACTORS = {
    ActorKind.OPERATOR: "the operator's own token: `HOLDFAST_TOKEN`, or the file in the data folder",
    ActorKind.TOKEN: "an access token, by its id, with its label",
    ActorKind.PRINCIPAL: "a sender in a chat",
    ActorKind.USER: "a user of the machine, at the command line",
    ActorKind.PROGRAM: "a Python program that uses the library and does not say who acts",
    ActorKind.SYSTEM: "a platform, by the name of its channel: it gave a chat another id",
    ActorKind.ANONYMOUS: "an HTTP client without a valid token, at the login",
}
SETTINGS = {
    "model": "what answers: a name as in `openai:gpt-5.2` or `practice`, or a table; unless said, whatever is there",
    "instructions": "what the model is told before every conversation",
    "instructions_file": "the same in a file, such as `SOUL.md`; relative to the configuration",
    "context_tokens": "the size of the model's window",
    "daily_spend_usd": "what models may cost per day (UTC), in US dollars; null for no limit",
    "tools": "which built-in tools the agent has; null for all",
    "talks_to": "which other agents the agent may message; they use only tools that it has too",
    "hops_max": "how often a message may go on from agent to agent",
    "on_doubt": "what becomes of a reply that may have been posted or not: sent again, shown as uncertain; or held",
    "compression.soft": "share of the window above which a summary is prepared while turns go on",
    "compression.hard": "share of the window at which a turn waits for the summary",
    "compression.keep": "share of the window that stays verbatim",
    "turns.arrivals": "what becomes of a message that arrives while a turn runs",
    "turns.turn_attempts_max": "how often a turn is taken up before it ends as failed",
    "turns.model_wait_s": "how long one answer of the model may take, in seconds",
    "limits.message_bytes": "the largest message that is taken, in bytes of UTF-8",
    "limits.mailbox_depth": "how many messages may wait in one chat",
    "limits.messages_per_minute": "how many messages one chat may send in a minute",
    "limits.attachments_bytes": "how much the agent's attachments may take in all; beyond, only their names are kept",
    "recall.enabled": "whether memory is looked up before the model is asked",
    "recall.budget_ms": "how long a turn waits for memory; who answers later is left out, and the turn says so",
    "recall.limit": "how many memories a turn is shown",
    "recall.chars_max": "how many characters of memory a turn is shown",
    "recall.private_in_groups": "whether what was said in private may be recalled in group chats",
    "expiry.idle_minutes": "a session that nobody spoke in for so long is finished; null for never",
    "expiry.daily_at": "the time of day, such as `04:00`, at which idle sessions of the day before are finished",
    "expiry.time_zone": "the zone of that time",
    "groups.groups": "whose conversation a group is: everybody's together, or each sender's own",
    "groups.threads": "whose conversation a thread is",
    "groups.mention_only": "whether only what is said to the agent is answered",
    "groups.observe": "whether the rest is kept as context",
    "access.door": "how a stranger is met in private: told how to ask, refused in silence, or let in",
    "access.allow": "who may talk to the agent, by the platform's own id: `telegram:123456789`",
    "access.group_door": "how strangers are met in groups",
    "access.operators": "who may give every command in every chat and group: `telegram:123456789`",
    "access.allow_chats": "groups in which everybody may talk to it: `telegram:-1001234567890`",
    "approval.tools": "tools whose calls wait for a human, beside those that are dangerous themselves; `*` for all",
    "approval.approvers": "who may approve; whoever asked the agent unless said",
    "approval.wait_minutes": "how long a call waits before it is denied",
    "channels": "the bot accounts, one table each: [agents.NAME.channels.CHANNEL]",
    "mcp": "MCP servers whose tools the agent has, one table each: [agents.NAME.mcp.SERVER]",
    "memory": "the memory providers, one table each: [agents.NAME.memory.PROVIDER], see below; and `memory.sharing`, "
    'who is shown what is remembered: "person" (the default), each their own, or "agent", everybody all of it',
}

SERVER_SETTINGS = {
    "host": "where the HTTP API listens; loopback unless said",
    "port": "the port; 7420 unless said",
    "public_hosts": "names under which a reverse proxy is reached from outside",
    "trusted_proxies": "addresses or networks whose X-Forwarded-For is believed",
    "limits.connections_max": "connections open at once, of everybody; fewer where the system allows fewer open files",
    "limits.operator_connections": "of these, the ones that only the operator may use",
    "limits.client_connections_max": "of one client; not counted for this machine and for trusted proxies",
    "limits.half_open_max": "connections that have not shown the whole head of a request",
    "limits.client_half_open_max": "the same, of one client",
    "limits.client_requests_max": "requests of one client under way at once; a stream or WebSocket is until it ends",
    "limits.token_requests_max": "requests with one token under way at once",
    "limits.body_bytes_max": "bytes of bodies in memory at once, and never less than one largest body",
    "limits.client_body_bytes_max": "the same, of one client",
    "limits.token_body_bytes_max": "the same, with one token",
    "limits.client_bytes_per_minute": "bytes of bodies taken from one client within a minute",
    "limits.token_bytes_per_minute": "bytes of bodies taken with one token within a minute",
    "limits.client_chats_per_hour": "chats that one client may begin within an hour",
    "limits.token_chats_per_hour": "chats that may be begun with one token within an hour",
}

PROVIDER_SETTINGS = {
    "local": "The embedded index: words, recency and session; no server. Fed from the journal, can be rebuilt.",
    "files": "MEMORY.md, USER.md and SOUL.md in `agents/NAME/` of the data folder, to read and to edit by hand.",
    "hindsight": "A Hindsight server, 0.8.6 or later. Needs `pip install 'holdfast[hindsight]'`.",
    "honcho": "A Honcho server. Needs `pip install 'holdfast[honcho]'`.",
    "url": "where the server listens; no redirects are followed",
    "bank": "the bank's name, from {agent}, {platform}, {chat}, {user} and {session}",
    "every_turns": "how many turns go out together; what is pending at any boundary goes out at once",
    "max_wait_s": "pending turns go out after this long, however few they are",
    "api_key_env": "the environment variable that holds the key",
    "send_key_over_plain_http": "lets the key go to a url that begins with http:// and is not of this machine",
    "recall_budget": "how hard the server looks",
    "recall_max_tokens": "how much the server may bring back",
    "timeout_s": "how long one request may take",
    "settle_s": "how long one delivery may take from sending to being kept",
    "workspace": "the workspace's name",
    "strategy": "how sessions are named where there is no stable chat",
    "titles": "session titles that have a name of their own",
    "peer_prefix": "put before every name",
    "peers": "with `compat`: people who have a peer of their own",
    "runtime_peer_prefix": "with `compat`: put before people's ids",
    "compat": "names exactly as Hermes builds them, so that a history is kept",
    "limit": "of what one question may bring back",
    "per_user": "whether each person's and each chat's notes have files too, in `users/PERSON/` and `chats/CHAT/`",
    "memory_chars": "how much MEMORY.md may hold",
    "user_chars": "how much USER.md may hold",
}

# --- pieces ------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell_of(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def cell_of(value: object) -> str:
    """A value as Markdown shows it: `<chat>` outside of code would vanish as an unknown tag."""
    pieces = str(value).replace("|", "\\|").split("`")
    return "`".join(piece if position % 2 else piece.replace("<", "&lt;") for position, piece in enumerate(pieces))


def page(title: str, *parts: str) -> str:
    return "\n\n".join([MARK, f"# {title}", *parts]) + "\n"


def told(what: type[Enum], meanings: Mapping[Any, str]) -> list[tuple[str, str]]:
    """Each member with its meaning; a member without one is a mistake here."""
    return [(f"`{one.value}`", meanings[one]) for one in what]


# --- pages -------------------------------------------------------------------------------------------------------


def every_error() -> list[type[HoldfastError]]:
    for module in walk_packages(holdfast.__path__, "holdfast."):
        if module.name.split(".")[1] not in {"__main__", "testing"}:
            import_module(module.name)
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
        "counts and durations. `session`, `turn`, `fence`, `operation` and `node` are on every line that is about one. "
        "Nobody's words are in the log; they are in the journal."
    )
    return page(
        "Log events", intro, table(("event", "meaning"), [(f"`{one}`", what) for one, what in log.EVENTS.items()])
    )


def commands() -> str:
    intro = (
        "A message that begins with a slash and one of these words is a command. It stands in the mailbox in order "
        "with the messages around it, except for signals, which take effect when they are accepted. A line that begins "
        "with a word that is nearly one of these (`/tilte`) is answered at once with the command that was meant; the "
        "agent does not see it and nothing changes. Any other word after a slash, such as a path, is plain text, and "
        "so is whatever a program says."
    )
    rows = [(f"`{usage}`", what, "at once" if verb in SIGNALS else "in order") for verb, (usage, what) in HELP.items()]
    rights = [
        (
            ", ".join(f"`/{verb.value}`" for verb in Verb if NEEDS[verb] is needs),
            *(_right(needs, Speaker(human=True, place=place, rank=rank)) for place, rank in RIGHTS.values()),
            _right(needs, Speaker(human=False, place=Place.PRIVATE)),
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
    "in a private chat": (Place.PRIVATE, Rank.MEMBER),
    "an admin in a group": (Place.GROUP, Rank.ADMIN),
    "a member of a group": (Place.GROUP, Rank.MEMBER),
    "a sender in a chat over HTTP with several": (Place.SHARED, Rank.MEMBER),
}
RIGHTS_TEXT = (
    "A command that the sender may not give is answered with who may, and changes nothing. An operator may give every "
    "command in every chat: a person in `access.operators`, with any of their linked accounts, and the operator's "
    "token or one with the scope admin. Where approvers are named (`approval.approvers`), only they and the operators "
    "decide."
)
RIGHTS_MORE = (
    "Own: every turn that is undone, repeated or stopped was said by the sender; the call was asked for by the sender. "
    "A chat over HTTP counts as private while one sender alone has spoken in it. A program is a bot, another agent, a "
    "token made with `--robot`, and whatever says that it was passed on (`hop`). The platform is asked who is an admin "
    "when such a command is given in a group: Telegram's creator and administrators, anonymous ones too; on Discord "
    "the owner and members who may administrate or manage the server; on Slack admins and owners of the workspace, "
    "and the member who made the channel. When it cannot be asked, the sender counts as a member and is told to try "
    "again.\n\n"
    "`/delete` asks once more: it is answered with what would go and a word, and `/delete WORD` deletes. The word is "
    "void once more was said, in another session, and for another person."
)


def _right(needs: Needs, speaker: Speaker) -> str:
    verb = next(verb for verb in Verb if NEEDS[verb] is needs)
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
        "To memory providers. `holdfast deliveries` and `GET /v1/deliveries` list them.",
        table(("state", "meaning"), [(f"`{state}`", what) for state, what in DELIVERY_STATES.items()]),
        "What `delivered` means, and what it does not, at each provider; `means` in JSON says the same:",
        table(("provider", "`delivered` means"), [(f"`{name}`", what) for name, what in delivered_means().items()]),
        "## Sessions",
        table(("state", "meaning"), told(SessionState, SESSION_STATES)),
    )


def delivered_means() -> dict[str, str]:
    named = ("local", "files", "hindsight", "honcho")
    return {name: import_module(f"holdfast.providers.{name}.provider").DELIVERED_MEANS for name in named}


ADAPTERS = {
    "Honcho": "holdfast.providers.honcho.answers",
    "Hindsight": "holdfast.providers.hindsight.answers",
    "Telegram": "holdfast.channels.telegram.answers",
    "Discord": "holdfast.channels.discord.answers",
    "Slack": "holdfast.channels.slack.answers",
}
WHOSE = {True: "its own", False: "not its own", None: "any"}
NO_ANSWER = (
    "Without an answer: a connection that was never made proves that nothing left (unreachable, not sent). A "
    "connection that was cut, an answer that did not come in time and one that cannot be read prove nothing "
    "(uncertain, doubtful)."
)


def answers() -> str:
    parts = []
    for name, module in ADAPTERS.items():
        adapter = import_module(module)
        told_first = (adapter.__doc__ or "").split("\n\n", 1)[1].strip()
        rows = [(row.shown, WHOSE[row.own], row.meaning.value, row.says) for row in adapter.ANSWERS]
        parts += [f"## {name}", told_first, table(("status", "whose", "means", "because"), rows)]
    return page(
        "Answers",
        "What the status of a write proves about the words that it carried. The first row that fits counts. An answer "
        "that is not provably the server's own may come from a proxy, which may forward the request later.",
        table(
            ("meaning", "what follows"),
            [
                ("refused, declined", "nothing landed and never will: it is parked, or failed, with the reason"),
                ("unreachable, not sent", "nothing landed, or landing twice is harmless: it is tried again"),
                ("uncertain", "the provider is asked; absent, it is sent again after the provider's quiet period"),
                ("doubtful", "it is resent once, or held, and shown as a possible duplicate unless it was proved"),
                ("suspect", "the words may be to blame: it counts once the provider has taken something else since"),
            ],
        ),
        NO_ANSWER,
        *parts,
    )


def cli() -> str:
    from typer.main import get_command  # noqa: PLC0415
    from typer.testing import CliRunner  # noqa: PLC0415

    from holdfast.cli.commands import app  # noqa: PLC0415

    def help_of(*words: str) -> str:
        plain = {"COLUMNS": str(HELP_COLUMNS), "TERMINAL_WIDTH": str(HELP_COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
        plain |= dict.fromkeys(("HOLDFAST_DATA", "HOLDFAST_CONFIG", "HOLDFAST_TOKEN"), "")
        result = CliRunner(env=plain).invoke(app, [*words, "--help"], prog_name="holdfast")
        if result.exit_code:
            raise RuntimeError(f"holdfast {' '.join(words)} --help: {result.output}")
        return "```text\n" + "\n".join(line.rstrip() for line in result.output.strip().splitlines()) + "\n```"

    parts = [help_of()]
    for words in _commands(get_command(app)):
        parts += [f"## holdfast {' '.join(words)}", help_of(*words)]
    return page("Command line", *parts)


def _commands(command: Any, *words: str) -> Iterable[tuple[str, ...]]:  # noqa: ANN401
    """Every command below one, with the words that name it."""
    for name, one in getattr(command, "commands", {}).items():
        yield (*words, name)
        yield from _commands(one, *words, name)


def http() -> str:
    from holdfast.api.openapi import document  # noqa: PLC0415
    from holdfast.api.routes.table import ENDPOINTS  # noqa: PLC0415

    api = document(ENDPOINTS, holdfast.__version__)
    intro = (
        "`holdfast up` serves this on loopback, `http://127.0.0.1:7420` unless told otherwise. Every route that names "
        "a scope needs the header `Authorization: Bearer <token>`; `operate` includes `read`, and `admin` everything. "
        "The WebSocket `/v1/ws` is described in [websocket.md](../explanation/websocket.md). Bodies are JSON in UTF-8; "
        "times are milliseconds since 1970, UTC. The same as an OpenAPI document: `GET /openapi.json`. Errors: "
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
            _shape(schema),
        ]
    return page("HTTP API", *parts)


def _route(about: dict[str, Any]) -> list[str]:
    scope = about.get("x-scope")
    needs = {None: "Needs no token.", "any": "Any token."}.get(scope, f"Scope: `{scope}`.")
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
    return table(("field", "type", "unless said"), rows)


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
        f"`{config.FILE}` in the data folder, or the file that `--config` or `HOLDFAST_CONFIG` names. It is read once, "
        "when Holdfast starts. Without a file every valid name is an agent with these defaults; with one, only the "
        "agents that it lists exist. An unknown or wrong key is refused with its name.",
        "A secret never stands in it: `token_env` names an environment variable, `token_file` a file. `holdfast init` "
        "writes a commented file, `holdfast config check` says what would run and everything that is wrong.",
        "What belongs to an agent stands in the table `[agents.NAME]` or one below it:",
        table(("setting", "meaning", "values", "default"), rows),
        "For example:",
        example,
        "## The server",
        "What concerns the whole process stands in the table `[server]`; the command line has the last word.",
        table(("setting", "meaning", "values", "default"), _server_settings()),
        "## Memory providers",
        "Each is a table `[agents.NAME.memory.PROVIDER]`, and several may stand together. Without any, an agent on a "
        "data folder has `local` and `files`; on PostgreSQL, none. Other packages may bring more, under the entry "
        "point group `holdfast.providers`.",
        *_provider_settings(),
        "## Environment",
        table(
            ("variable", "meaning"),
            [
                ("`HOLDFAST_DATA`", "the data folder, as `--data`"),
                ("`HOLDFAST_CONFIG`", "the configuration, as `--config`"),
                (
                    "`HOLDFAST_TOKEN`",
                    "the operator's token, 32 random characters or more; otherwise one is kept in the data folder",
                ),
            ],
        ),
    )


def _server_settings() -> list[tuple[str, ...]]:
    fields = msgspec.structs.fields(config.ServerTable)
    plain = [(one.name, one) for one in fields if one.name != "limits"]
    limits = [(f"limits.{one.name}", one) for one in msgspec.structs.fields(config.ServerLimitsTable)]
    return [(f"`{name}`", SERVER_SETTINGS[name], _bounds(one.type), _default(one)) for name, one in (*plain, *limits)]


def _provider_settings() -> list[str]:
    from holdfast.providers.files.factory import FilesSettings  # noqa: PLC0415
    from holdfast.providers.hindsight.factory import HindsightSettings  # noqa: PLC0415
    from holdfast.providers.honcho.factory import HonchoSettings  # noqa: PLC0415
    from holdfast.providers.local.factory import LocalSettings  # noqa: PLC0415

    shapes: dict[str, type[msgspec.Struct]] = {
        "local": LocalSettings,
        "files": FilesSettings,
        "hindsight": HindsightSettings,
        "honcho": HonchoSettings,
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
    return "needed" if one.required else f"`{msgspec.json.encode(one.default).decode()}`"


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
    """The page with the diagram between its marks brought up to date."""
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
