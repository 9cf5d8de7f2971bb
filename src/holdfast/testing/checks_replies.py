"""The messages in the chats, compared with the reply ledger (I10)."""

import re
from collections import Counter, defaultdict
from itertools import pairwise

from holdfast.kernel.ids import ReplyId
from holdfast.outbox.post import OnDoubt
from holdfast.outbox.reply import NOBODY_KNOWS
from holdfast.testing.chats import ChatServer
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import Row
from holdfast.testing.stream_platform import HALL, NEW_HALL

OVER = frozenset({"delivered", "failed", "uncertain"})
CUT_OFF = "it was being sent when its process ended"
SENDS_MAX = 2  # of one piece that may arrive: the first, and one resend after an unknown outcome


def replies_come_to_an_end(evidence: Evidence) -> Found:
    """I10: each reply is delivered, failed or uncertain, with a receipt if it was posted and a reason otherwise."""
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
    landed.update((row["id"], 0) for row in _posted(evidence) if _edited(evidence, row) is not None)
    resends = evidence.company.operators.resends if evidence.company is not None else Counter[str]()
    may_land = Counter((call.post.reply, call.post.part) for call in _server(evidence).calls if call.may_land)
    for row in _posted(evidence):
        shown = {part: times for (reply, part), times in landed.items() if reply == row["id"]}
        if row["state"] == "delivered" and shown != dict.fromkeys(range(row["part"]), 1):
            yield f"reply {row['n']} is delivered in {row['part']} pieces and shown as {shown}"
        if row["state"] == "failed" and (max(shown.values(), default=1) > 1 or max(shown, default=-1) >= row["part"]):
            yield f"reply {row['n']} failed after {row['part']} pieces and is shown as {shown}"
        most = SENDS_MAX if evidence.policies[row["agent"]].on_doubt is OnDoubt.RESEND else 1
        most += resends[row["id"]]  # each request of an operator sends a piece once more
        for part in range(row["part"] + 1):
            if may_land[row["id"], part] > most:
                yield f"piece {part} of reply {row['n']} was sent {may_land[row['id'], part]} times"


def posts_are_what_was_said(evidence: Evidence) -> Found:
    """I10: the pieces of a delivered reply are its words, and go where its message came from."""
    pieces: dict[str, dict[int, str]] = defaultdict(dict)
    for post in _server(evidence).landed:
        pieces[post.reply][post.part] = post.text
    addresses = {post.reply: {_chat(str(post.address))} for post in _server(evidence).landed}
    for row in _posted(evidence):
        if (text := _edited(evidence, row)) is not None:
            pieces[row["id"]][0] = text
        said = "".join(text for _, text in sorted(pieces[row["id"]].items()))
        body = bytes(row["body"]).decode()
        if row["state"] == "delivered" and body and _bare(said) != _bare(body):
            yield f"reply {row['n']} is shown with other words than it has"
        if addresses.get(row["id"], {_chat(row["address"])}) != {_chat(row["address"])}:
            yield f"reply {row['n']} to {row['address']} is shown in {sorted(addresses[row['id']])}"


def replies_keep_their_order(evidence: Evidence) -> Found:
    """I10: a chat is sent one reply after the other, in the order in which they were committed, piece by piece.

    An uncertain reply delays no other: its late arrival may follow the next reply.
    """
    resends = evidence.company.operators.resends if evidence.company is not None else Counter[str]()
    numbers = {
        row["id"]: row["n"]
        for row in evidence.rows["reply"]
        if row["state"] != "uncertain" and not resends[row["id"]]  # a resent reply follows others
    }
    calls: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for call in _server(evidence).calls:
        if call.post.reply in numbers:
            calls[_chat(str(call.post.address))].append((numbers[call.post.reply], call.post.part))
    for address, made in calls.items():
        yield from (f"{address} was sent {b} after {a}" for a, b in pairwise(made) if b < a)


def resends_send_once_more(evidence: Evidence) -> Found:
    """I29: a reply that an operator resends is sent, unless its sender died meanwhile: then it is uncertain.

    An agent that holds uncertain replies records another reason.
    """
    rows = {row["id"]: row for row in _posted(evidence)}
    calls = Counter(call.post.reply for call in _server(evidence).calls)
    for reply, before in evidence.company.operators.sent_before.items() if evidence.company is not None else ():
        row = rows[reply]
        # The outcome is also unknown if the channel's code raised before the request was sent.
        is_cut_off = row["state"] == "uncertain" and str(row["reason"]).startswith((CUT_OFF, NOBODY_KNOWS))
        is_over = is_cut_off or row["decided_by"] is not None  # somebody gave it up before it was sent
        if row["body"] and row["draft"] is None and not is_over and calls[ReplyId(reply)] <= before:
            yield f"reply {row['n']} was to be sent again; the platform saw {before} calls before it and none after"


def _posted(evidence: Evidence) -> list[Row]:
    channels = evidence.company.posted if evidence.company is not None else ("sim",)
    if evidence.chats is None:
        return []
    return [row for row in evidence.rows["reply"] if row["channel"] in channels and row["channel"] != "agent"]


def _edited(evidence: Evidence, row: Row) -> str | None:
    """The current text at the draft of a reply, if its first piece replaced the draft."""
    return _server(evidence).texts.get(row["draft_id"]) if row["draft"] == "replaced" else None


def _chat(address: str) -> str:
    """The address, with one name for both ids of a chat that moved."""
    return address.replace(f":{NEW_HALL.name}", f":{HALL.name}")


def _server(evidence: Evidence) -> ChatServer:
    return evidence.chats.server if evidence.chats is not None else ChatServer()


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text)
