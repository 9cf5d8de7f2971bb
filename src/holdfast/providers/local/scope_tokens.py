"""Scope tokens: short hashes beside a line's words in the index, one for each way in which the line can be visible.

A query matches a word and one of the asker's tokens, so its cost depends on the lines that the asker may see, not on
all lines with the same word.

Rule 1: tokens only save work. `_VISIBLE` of search.py decides whether a line may be shown; two names with the same
        token cost a lookup, and reveal nothing.
Rule 2: every line that `_VISIBLE` allows carries one of the query's tokens, else it would not be found.
Rule 3: a token is made of the line's own columns, which are never rewritten. The asker's linked accounts and groups are
        looked up with each query.
"""

from collections.abc import Sequence
from hashlib import blake2b

from holdfast.memory.recall import RecallQuery

GROUPS_MAX = 64  # each adds one list per word; above it the query reads all groups of the agent
TOKEN_BYTES = 5  # ten hexadecimal digits, which no tokenizer splits


def line_scopes(
    *, kind: str, agent: str, session: str, address: str, in_group: bool, principal: str
) -> tuple[str, ...]:
    """The tokens of one line. The `principal` of a note is its scope (memory/visibility.py)."""
    if kind == "note":
        return (_token("note", agent, principal),)
    tokens = [_token("groups", agent) if in_group else _token("private", agent, principal)]
    tokens.append(_token("session", agent, session))
    tokens += [_token("chat", agent, address)] if address else []
    return tuple(tokens)


def question_scopes(query: RecallQuery, groups: Sequence[str]) -> tuple[str, ...]:
    """The tokens that a query may match. `groups` are the addresses of the asker's groups."""
    agent, is_many = query.agent, len(groups) > GROUPS_MAX
    chats = dict.fromkeys([query.naming.address, *([] if is_many else groups)])
    tokens = [_token("session", agent, query.key.session)]
    tokens += [_token("note", agent, scope) for scope in query.audience.scopes]
    tokens += [_token("chat", agent, address) for address in chats if address]
    tokens += [_token("groups", agent)] if is_many else []
    if not query.group or query.private_in_groups:
        tokens += [_token("private", agent, asker) for asker in query.askers]
    return tuple(tokens)


def _token(kind: str, agent: str, name: str = "") -> str:
    """Unkeyed: the same file holds the names."""
    source = f"{kind} {len(agent)} {agent} {name}".encode("utf-8", "surrogatepass")  # unambiguous by the length
    return blake2b(source, digest_size=TOKEN_BYTES).hexdigest()
