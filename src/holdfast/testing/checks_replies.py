"""What the chats were shown, against the ledger of replies (I10)."""

import re
from collections import Counter, defaultdict
from itertools import pairwise

from holdfast.core.outgoing import OnDoubt
from holdfast.testing.chats import ABLE, ChatServer
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row

OVER = frozenset({"delivered", "failed", "uncertain"})
SENDS_MAX = 2  # that may land, of one piece: the first, and one more in doubt


def replies_come_to_an_end(evidence: Evidence) -> Found:
    """I10: each reply is delivered, failed or uncertain, with a receipt for what was posted and a reason otherwise."""
    for row in _posted(evidence):
        if row["state"] not in OVER or row["owner"] is not None:
            yield f"reply {row['n']} is {row['state']} of {row['owner']} at rest"
        if row["state"] == "delivered" and len((row["receipt"] or "").split()) != row["part"]:
            yield f"reply {row['n']} is delivered in {row['part']} pieces with the receipts {row['receipt']!r}"
        if row["state"] in {"failed", "uncertain"} and not row["reason"]:
            yield f"reply {row['n']} is {row['state']} without a reason"


def replies_are_posted_once(evidence: Evidence) -> Found:
    """I10: the platform shows each piece once, unless the reply is uncertain; never more than twice."""
    landed = Counter((post.reply, post.part) for post in _server(evidence).landed)
    may_land = Counter((call.post.reply, call.post.part) for call in _server(evidence).calls if call.may_land)
    for row in _posted(evidence):
        shown = {part: times for (reply, part), times in landed.items() if reply == row["id"]}
        if row["state"] == "delivered" and shown != dict.fromkeys(range(row["part"]), 1):
            yield f"reply {row['n']} is delivered in {row['part']} pieces and shown as {shown}"
        if row["state"] == "failed" and (max(shown.values(), default=1) > 1 or max(shown, default=-1) >= row["part"]):
            yield f"reply {row['n']} failed after {row['part']} pieces and is shown as {shown}"
        most = SENDS_MAX if evidence.policies[row["agent"]].on_doubt is OnDoubt.RESEND else 1
        for part in range(row["part"] + 1):
            if may_land[row["id"], part] > most:
                yield f"piece {part} of reply {row['n']} was sent {may_land[row['id'], part]} times"


def posts_are_what_was_said(evidence: Evidence) -> Found:
    """I10: the pieces of a delivered reply are its words, and go where its message came from."""
    pieces: dict[str, dict[int, str]] = defaultdict(dict)
    for post in _server(evidence).landed:
        pieces[post.reply][post.part] = post.text
    addresses = {post.reply: {str(post.address)} for post in _server(evidence).landed}
    for row in _posted(evidence):
        said = "".join(text for _, text in sorted(pieces[row["id"]].items()))
        body = bytes(row["body"]).decode()
        if row["state"] == "delivered" and body and _bare(said) != _bare(body):
            yield f"reply {row['n']} is shown with other words than it has"
        if addresses.get(row["id"], {row["address"]}) != {row["address"]}:
            yield f"reply {row['n']} to {row['address']} is shown in {sorted(addresses[row['id']])}"


def replies_keep_their_order(evidence: Evidence) -> Found:
    """I10: a chat is sent one reply after the other, in the order in which they were committed, piece by piece.

    An uncertain reply holds up nobody: what its sender still does may be seen beside the next one.
    """
    numbers = {row["id"]: row["n"] for row in evidence.rows["reply"] if row["state"] != "uncertain"}
    calls: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for call in _server(evidence).calls:
        if call.post.reply in numbers:
            calls[str(call.post.address)].append((numbers[call.post.reply], call.post.part))
    for address, made in calls.items():
        yield from (f"{address} was sent {b} after {a}" for a, b in pairwise(made) if b < a)


def _posted(evidence: Evidence) -> list[Row]:
    if evidence.chats is None or not evidence.chats.enabled:
        return []
    return [row for row in evidence.rows["reply"] if row["channel"] == "sim" and row["agent"] in ABLE]


def _server(evidence: Evidence) -> ChatServer:
    return evidence.chats.server if evidence.chats is not None else ChatServer()


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text)
