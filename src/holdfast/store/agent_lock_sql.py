"""The lock of an agent: verbs that add something a forgetting looks for share it, a forgetting holds it alone.

A lock on the rows that are there does not stop a new one. Without this lock a mailbox, a stream of notes or a branch
that is made beside a forgetting would be seen by some of its statements and not by others, and words would stay.

It is the first lock of a transaction, before mailboxes (D5). Mailboxes, streams and branches are made rarely; what
happens inside of them needs only their own locks.
"""

from collections.abc import Iterable

from holdfast.store.script import Script, one, run

SHARE = "select n from withdrawal where agent = :agent /*share*/"
HOLD = "select n from withdrawal where agent = :agent /*lock*/"
NEW = "insert into withdrawal (agent, n) values (:agent, 0) on conflict (agent) do nothing"


def share_agent(agent: str) -> Script[None]:
    """Add to what the agent has: several may do that at once."""
    while (yield from one(SHARE, agent=agent)) is None:
        yield from run(NEW, agent=agent)


def hold_agents(agents: Iterable[str]) -> Script[None]:
    """Look for all that the agents have, while nothing is added."""
    for agent in sorted(agents):
        while (yield from one(HOLD, agent=agent)) is None:
            yield from run(NEW, agent=agent)
