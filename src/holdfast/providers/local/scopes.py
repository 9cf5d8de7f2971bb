"""The sieve: for each way in which a line can be seen, a short token in the index beside its words.

A question looks for a word and for one of the tokens of whoever asks, so its work follows what they may be shown, not
what everybody else said with the same word.

Rule 1: the sieve only spares work. Whether a line may be shown is decided by `_VISIBLE` of recalling.py; two names that
        happen to share a token cost a look, and show nothing.
Rule 2: whatever `_VISIBLE` lets a question see carries one of the question's tokens, else it would not be found.
Rule 3: a token is made of what the line itself holds, which is never rewritten. Who else somebody is, and in which
        groups they spoke, is looked up when they ask.
"""

from collections.abc import Sequence
from hashlib import blake2b

from holdfast.memory.recall import RecallQuery

GROUPS_MAX = 64  # each is one more list to walk for every word; beyond it all groups of the agent are looked through
TOKEN_BYTES = 5  # as ten letters and digits, which no tokenizer takes apart


def line_scopes(
    *, kind: str, agent: str, session: str, address: str, in_group: bool, principal: str
) -> tuple[str, ...]:
    """The ways in which one line can be seen. The `principal` of a note is its scope (memory/visibility.py)."""
    if kind == "note":
        return (_token("note", agent, principal),)
    ways = [_token("groups", agent) if in_group else _token("private", agent, principal)]
    ways.append(_token("session", agent, session))
    ways += [_token("chat", agent, address)] if address else []
    return tuple(ways)


def question_scopes(query: RecallQuery, groups: Sequence[str]) -> tuple[str, ...]:
    """The ways in which whoever asks can see lines. `groups` are the addresses of those that they may look into."""
    agent, is_many = query.agent, len(groups) > GROUPS_MAX
    chats = dict.fromkeys([query.naming.address, *([] if is_many else groups)])
    ways = [_token("session", agent, query.key.session)]
    ways += [_token("note", agent, scope) for scope in query.audience.scopes]
    ways += [_token("chat", agent, address) for address in chats if address]
    ways += [_token("groups", agent)] if is_many else []
    if not query.group or query.private_in_groups:
        ways += [_token("private", agent, asker) for asker in query.askers]
    return tuple(ways)


def _token(way: str, agent: str, name: str = "") -> str:
    """Not keyed: the names stand in the same file."""
    told = f"{way} {len(agent)} {agent} {name}".encode("utf-8", "surrogatepass")  # the length tells the two apart
    return blake2b(told, digest_size=TOKEN_BYTES).hexdigest()
