"""Memory: the notes of every agent by their scope, who may see them, and each change."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from holdfast.api.endpoint import Param
from holdfast.console.page import Asked, PageView, page
from holdfast.inbox.address import agent_name
from holdfast.inbox.identity_sql import linked_principals
from holdfast.memory.notes import AgentNotes, Capacity, MemoryOperation, Target, stream_of
from holdfast.memory.notes_sql import read_memory
from holdfast.memory.visibility import CHAT, SESSION, SHARED, person_of
from holdfast.monitor.notes_list_sql import list_newest_changes, list_notes
from holdfast.turns.policy import AgentPolicy

TEXT = {"type": "string", "maxLength": 500}
QUERY = {
    "agent": Param("only this agent's", TEXT, default=""),
    "q": Param("a part of the scope: a person, a chat or a session", TEXT, default=""),
    "after": Param("the scope of the last row before", TEXT, default=""),
    "after_agent": Param("the agent of the last row before", TEXT, default=""),
}
OF_SCOPE = {
    "agent": Param("whose notes", TEXT, default=""),
    "scope": Param("the scope; empty for shared notes", TEXT, default=""),
}
PAGE_SIZE, CHANGES_MAX = 50, 200


@dataclass(frozen=True, slots=True)
class WordRun:
    """A part of a difference: `kept`, `added` or `removed`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownChange:
    operation: MemoryOperation
    pieces: Sequence[WordRun]


@dataclass(frozen=True, slots=True)
class TargetUse:
    """How full one target of a scope is."""

    name: str
    used: int
    most: int

    @property
    def share(self) -> float:
        return min(100.0, 100 * self.used / self.most) if self.most else 100.0


@page("/console/memory", query=QUERY)
async def get_memory(asked: Asked) -> PageView:
    """The notes of the agents by their scope."""
    wanted = {**asked.query, "q": asked.query["q"].strip()}
    after = (wanted["after_agent"], wanted["after"]) if wanted["after_agent"] else None
    found = await asked.read(list_notes(agent=wanted["agent"], text=wanted["q"], after=after, limit=PAGE_SIZE + 1))
    shown = found[:PAGE_SIZE]
    older = asked.address(after=shown[-1].subject, after_agent=shown[-1].agent) if len(found) > PAGE_SIZE else ""
    return PageView(
        "memory.html",
        "Memory",
        {
            "asked": wanted,
            "found": [
                (one, kind_of(one.subject), readers(one.subject, asked.runtime.policy(one.agent))) for one in shown
            ],
            "older": older,
            "agents": asked.runtime.agents(),
            "is_filtered": bool(wanted["q"] or wanted["agent"]),
        },
    )


@page("/console/memory/notes", query=OF_SCOPE)
async def get_notes(asked: Asked) -> PageView:
    """The notes of one scope of an agent, with their history."""
    agent, scope = agent_name(asked.query["agent"] or asked.runtime.default_agent), asked.query["scope"]
    memory = await asked.read(read_memory(agent, scope))
    changes = await asked.read(list_newest_changes(stream_of(agent, scope), limit=CHANGES_MAX))
    person, policy = person_of(scope), asked.runtime.policy(agent)
    linked = await asked.read(linked_principals(person)) if person is not None else ()
    return PageView(
        "notes.html",
        "Notes",
        {
            "agent": agent,
            "scope": scope,
            "kind": kind_of(scope),
            "memory": memory,
            "uses": uses(memory, policy.notes if policy is not None else Capacity()),
            "changes": [ShownChange(one, difference(one.old_text, one.text)) for one in changes],
            "older": memory.head - len(changes),
            "readers": readers(scope, policy),
            "linked": [one for one in linked if one != person],
        },
    )


def uses(memory: AgentNotes, capacity: Capacity) -> Sequence[TargetUse]:
    return [TargetUse(target.value, memory.used_chars(target), capacity.of(target)) for target in Target]


def kind_of(scope: str) -> str:
    """shared, chat, session or person."""
    if scope == SHARED:
        return "shared"
    return "chat" if scope.startswith(CHAT) else "session" if scope.startswith(SESSION) else "person"


def readers(scope: str, policy: AgentPolicy | None) -> str:
    """Who may see the notes of a scope, as memory/visibility.py decides it."""
    everybody = ' Every private conversation sees them too: memory.sharing is "agent".'
    shares_all = policy is not None and policy.recall.shares_all
    match kind_of(scope):
        case "shared":
            return "Everybody who talks with the agent. A note that a model wrote here is its speaker's only."
        case "chat":
            return f"The members of this chat.{everybody if shares_all else ''}"
        case "session":
            return f"This session only.{everybody if shares_all else ''}"
    in_groups = policy is not None and policy.recall.private_in_groups
    where = "in private and in groups" if in_groups else "in private conversations, never in a group"
    return f"This person and their linked accounts, {where}.{everybody if shares_all else ''}"


def difference(old: str, new: str) -> Sequence[WordRun]:
    """What a change replaced, word by word; a text that changed wholly is removed and added."""
    before, after = old.split(" ") if old else [], new.split(" ") if new else []
    found = list[WordRun]()
    for tag, i, j, m, n in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            found.append(WordRun("kept", " ".join(before[i:j])))
            continue
        found += [WordRun("removed", " ".join(before[i:j]))] if i < j else []
        found += [WordRun("added", " ".join(after[m:n]))] if m < n else []
    return found
