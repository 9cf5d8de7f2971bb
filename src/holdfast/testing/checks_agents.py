"""I25: a message between agents arrives once, counts its hops, goes only to agents that its sender may message, and
runs no tool that one of its senders lacks; the exchange ends.

The agents through which a message came are computed here from the reply ledger, not read from the column that says so.
"""

from collections import Counter

from holdfast.inbox.address import parse
from holdfast.inbox.agent_chain import PRINCIPALS
from holdfast.kernel.ids import AgentName
from holdfast.testing.agent_messages import HOPS_MAX
from holdfast.testing.checks_work import is_agent_message
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row, body_of
from holdfast.turns.journal import AssistantSaid, UserSaid

ARRIVALS_MAX = 2 ** (HOPS_MAX + 1)  # for one text: each message causes one more message and one answer, one hop further


def hops_are_counted(evidence: Evidence) -> Found:
    """I25: a message has one hop more than the message it answers, and none exceeds the limit."""
    for row in evidence.rows["inbound"]:
        if row["hop"] > evidence.policies[_agent_of(row)].hops_max:
            yield f"{row['event_id']} came through {row['hop']} agents"
    arrived = {row["event_id"]: row for row in _between_agents(evidence)}
    joined = _joined(evidence) if arrived else {}
    for reply in evidence.rows["reply"]:
        if reply["channel"] != "agent":
            continue
        if is_agent_message(reply) and (reply["session"], reply["turn"]) in joined:
            before = [(at, hop) for at, hop in joined[reply["session"], reply["turn"]] if at <= reply["at"]]
            least, most = max((hop for at, hop in before if at < reply["at"]), default=0), max(hop for _, hop in before)
            if not least + 1 <= reply["hop"] <= most + 1:
                yield f"reply {reply['n']} counts {reply['hop']} hops, in a turn with {most}"
        found = arrived.get(f"{reply['id']}.0")
        further = 0 if is_agent_message(reply) else 1
        if found is not None and found["hop"] != reply["hop"] + further:
            yield f"{found['event_id']} counts {found['hop']} hops; it was sent with {reply['hop']}"


def letters_arrive_once(evidence: Evidence) -> Found:
    """I25: a message delivered to another agent is in its mailbox once, and every message there was sent."""
    arrived = Counter(row["event_id"] for row in _between_agents(evidence))
    sent = {f"{row['id']}.0": row for row in evidence.rows["reply"] if row["channel"] == "agent"}
    yield from (f"{event_id} arrived and was never sent" for event_id in arrived if event_id not in sent)
    for event_id, row in sent.items():
        if arrived[event_id] != int(row["state"] == "delivered") and row["state"] in {"delivered", "failed"}:
            yield f"{event_id} is {row['state']} and arrived {arrived[event_id]} times"


def circles_come_to_an_end(evidence: Evidence) -> Found:
    """I25: a text that makes agents message each other causes a bounded number of messages and model calls."""
    asked = sum(" use write " in sent.say.text for sent in evidence.sent)
    arrived = len(_between_agents(evidence))
    if arrived > asked * ARRIVALS_MAX:
        yield f"{asked} texts of people caused {arrived} messages between agents"


def letters_go_to_those_listed(evidence: Evidence) -> Found:
    """I25: an agent messages only agents on its list and, for a forwarded message, on the lists of its senders."""
    chains = _Chains(evidence)
    for row in _between_agents(evidence):
        reply = chains.sent.get(row["event_id"])
        if reply is None or not is_agent_message(reply):
            continue
        to = _agent_of(row)
        for sender in {reply["agent"], *chains.of_turn(reply["session"], reply["turn"])}:
            if to != sender and to not in evidence.policies[sender].talks_to:
                yield f"{row['event_id']} went to {to}, which is not on the list of {sender}"


def chains_limit_tools(evidence: Evidence) -> Found:
    """I25: no tool takes effect in a turn whose messages came through an agent that does not have the tool."""
    if evidence.company is None or not evidence.company.lacks or not evidence.effects:
        return
    chains, places = _Chains(evidence), _call_places(evidence)
    for name, call in evidence.effects:
        session, turn = places.get(call, ("", 0))
        for agent in chains.of_turn(session, turn):
            if name in evidence.company.lacks[agent]:
                yield f"{name} took effect for {call}, in turn {turn} of {session}, which came through {agent}"


class _Chains:
    """The agents through which messages came, computed from the messages sent."""

    def __init__(self, evidence: Evidence) -> None:
        self.sent = {f"{row['id']}.0": row for row in evidence.rows["reply"] if row["channel"] == "agent"}
        events = {row["message"]: row["event_id"] for row in evidence.rows["inbound"]}
        self._turns: dict[tuple[str, int], set[str]] = {}
        self._begun: dict[tuple[str, int], set[str]] = {}
        for entry in evidence.rows["entry"]:
            said = body_of(entry) if entry["kind"] == "user" else None
            if isinstance(said, UserSaid) and said.principal.startswith(PRINCIPALS):
                place = (entry["session"], entry["turn"])
                self._begun.setdefault(place, set()).add(said.principal.removeprefix(PRINCIPALS))
                self._turns.setdefault(place, set()).add(events.get(said.message, said.event_id))

    def of_turn(self, session: str, turn: int) -> set[str]:
        """Bounded, because each message has one hop more than the turn it was sent in."""
        found = set(self._begun.get((session, turn), ()))
        for event_id in self._turns.get((session, turn), ()):
            if (reply := self.sent.get(event_id)) is not None:
                found |= self.of_turn(reply["session"], reply["turn"])
        return found


def _call_places(evidence: Evidence) -> dict[str, tuple[str, int]]:
    """The turn in which each tool was called."""
    found: dict[str, tuple[str, int]] = {}
    for entry in evidence.rows["entry"]:
        said = body_of(entry) if entry["kind"] == "assistant" else None
        if isinstance(said, AssistantSaid):
            found |= {call.id: (entry["session"], entry["turn"]) for call in said.calls}
    return found


def _joined(evidence: Evidence) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """When each message joined its turn, and its hops. A message that steers a turn joins it after messages of
    that turn were sent."""
    hops = {row["message"]: row["hop"] for row in evidence.rows["inbound"]}
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for entry in evidence.rows["entry"]:
        said = body_of(entry) if entry["kind"] == "user" else None
        if isinstance(said, UserSaid) and said.message in hops:
            found.setdefault((entry["session"], entry["turn"]), []).append((entry["at"], hops[said.message]))
    return found


def _between_agents(evidence: Evidence) -> list[Row]:
    return [row for row in evidence.rows["inbound"] if row["account"].startswith("agent:")]


def _agent_of(row: Row) -> AgentName:
    return parse(row["address"]).agent
