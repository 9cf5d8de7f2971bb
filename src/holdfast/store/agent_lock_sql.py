"""The lock of an agent: verbs that create rows a forget request searches for share it; a forget request holds it alone.

A lock on existing rows does not prevent new ones. Without this lock, some statements of a forget request would see a
mailbox, a stream of notes or a branch created concurrently and others would not, and content would remain.

It is the first lock of a transaction, before mailboxes (D5). Mailboxes, streams and branches are created rarely;
changes inside them need only their own locks.
"""

from collections.abc import Iterable

from holdfast.store.script import Script, one, run

SHARE = "select n from withdrawal where agent = :agent /*share*/"
HOLD = "select n from withdrawal where agent = :agent /*lock*/"
NEW = "insert into withdrawal (agent, n) values (:agent, 0) on conflict (agent) do nothing"


def share_agent(agent: str) -> Script[None]:
    """Lock the agent for a verb that creates rows; several transactions may hold this lock at once."""
    while (yield from one(SHARE, agent=agent)) is None:
        yield from run(NEW, agent=agent)


def hold_agents(agents: Iterable[str]) -> Script[None]:
    """Lock the agents exclusively, so that no rows are created while their rows are searched."""
    for agent in sorted(agents):
        while (yield from one(HOLD, agent=agent)) is None:
            yield from run(NEW, agent=agent)
