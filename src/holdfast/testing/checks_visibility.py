"""I33: no person is shown what another person said in private, or what was said in another group.

The rule is written here a second time, from docs/explanation/who-sees-what.md, not from memory/visibility.py: a fault
in one of them shows as a difference. Each text of a history has a mark, so its author, chat and time are known wherever
it appears: in a request to a model, in a note, at a provider, in a query at rest. A note that a model made spells the
marks of its messages with `w` instead of `m` (strangers.py).

Identity follows the links: while two accounts are linked, words of one are words of both, and a query of one is a query
of both. Every moment at which a link may have existed counts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from holdfast.testing.clock import START_MS
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.models import ModelAsked
from holdfast.testing.platform import SentMessage
from holdfast.testing.rows import Row, body_of
from holdfast.testing.workload import marks_in
from holdfast.turns.context import ModelMessage
from holdfast.turns.journal import UserSaid
from holdfast.turns.model import ModelTask

NOTE = re.compile(r"\b(note|kept) (\d+)((?: w\d{2,})+)")
RECALL = "recall"
RESUME = "/resume"
ROOM = "room:"  # the prefix of principals of the platform in stream_platform.py
People: TypeAlias = frozenset[str]
RECORDERS: People = frozenset({"ghost", "spook"})  # the principals of recorded turns (platform.py)


@dataclass(frozen=True, slots=True)
class WordOrigin:
    """The origin of a text."""

    mark: str
    said_by: People  # the sender and every account linked to it then
    mailbox: str
    session: str
    in_group: bool
    in_company: bool = False  # several people have spoken or retried in the chat


@dataclass(frozen=True, slots=True)
class Reader:
    """The person who is shown a text, in a chat or outside all chats."""

    what: str
    people: People
    mailbox: str = ""
    sessions: frozenset[str] = frozenset()
    in_group: bool = False
    in_company: bool = False  # another person had spoken in the chat before and reads the answers
    brought_by: People = frozenset()  # the people who resumed their own sessions here while alone in the chat

    def is_author(self, origin: WordOrigin) -> bool:
        return bool(self.people & origin.said_by)

    def may_hear(self, origin: WordOrigin) -> bool:
        """Whether the text belongs to the conversation: said here, or resumed here from another private chat."""
        is_own = self.is_author(origin) or bool(self.brought_by & origin.said_by)
        return self.mailbox == origin.mailbox or (is_own and not self.in_group and not origin.in_group)

    def may_recall(self, origin: WordOrigin) -> bool:
        """Whether recall may find the text: it was said in this chat or, for a private query, by the person."""
        here = self.mailbox == origin.mailbox or origin.session in self.sessions
        return here or (self.is_alone and self.is_author(origin))

    @property
    def is_alone(self) -> bool:
        return not self.in_group and not self.in_company

    def may_read(self, note: "Note") -> bool:
        """Whether the note may be shown: a group's note to the group, a person's note to that person in private."""
        is_own = self.is_alone and note.is_private and all(map(self.is_author, note.origins))
        if is_own or (note.author and not note.may_be_the_chats):
            return is_own
        return all(one.mailbox == self.mailbox or one.session in self.sessions for one in note.origins)


@dataclass(frozen=True, slots=True)
class Note:
    """A note that a model made, and the origins of its words."""

    text: str
    origins: tuple[WordOrigin, ...]
    author: People  # the owner, if it is the note of one person

    @property
    def is_private(self) -> bool:
        return not any(one.in_group for one in self.origins)

    @property
    def may_be_the_chats(self) -> bool:
        """Whether others had spoken before in the chat of the note: then the note belongs to the chat. A linked account
        speaks as the person it is linked to, and as itself after the link has ended."""
        return any(one.in_company for one in self.origins)


class Archive:
    """The origin of every mark of a history."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._heard: dict[str, list[tuple[int, str]]] = {}  # by chat: the beginning and the principal of each turn
        opened = {(row["session"], row["n"]): row["opened_at"] for row in evidence.rows["turn"]}
        spoken = [(row["mailbox"], row["opened_at"], row["principal"]) for row in evidence.rows["turn"]]
        spoken += [  # the sender of a /retry, which alone of all commands opens a turn, was there before that turn
            (row["mailbox"], opened[row["session"], row["turn"]] - 1, row["principal"])
            for row in evidence.rows["inbound"]
            if row["kind"] == "command" and (row["session"], row["turn"]) in opened
        ]
        for mailbox, at, principal in spoken:
            if not principal.startswith("agent:"):
                self._heard.setdefault(mailbox, []).append((at, principal.removeprefix(ROOM)))
        rows = {row["event_id"]: row for row in evidence.rows["inbound"]}
        self.origins = {
            mark[1:]: self._origin(mark, sent, rows[sent.say.event_id])
            for sent in evidence.sent
            if sent.say.event_id in rows
            for mark in marks_in(sent.say.text)
        }
        for turn in evidence.recorded:
            self.origins[turn.mark[1:]] = WordOrigin(turn.mark, RECORDERS, "attic", turn.session, in_group=False)
        self._senders = {sent.say.event_id: sent for sent in evidence.sent}
        self._speakers = evidence.rows.by("turn", "session")

    def _origin(self, mark: str, sent: SentMessage, row: Row) -> WordOrigin:
        until = sent.first_at if sent.acked_at is None else sent.acked_at
        people = self.people(sent.say.sender, sent.first_at, until)
        in_company = len({who for _, who in self._heard.get(row["mailbox"], [])}) > 1
        return WordOrigin(mark, people, row["mailbox"], row["session"] or "", sent.say.chat.type != "dm", in_company)

    def _others_spoke(self, mailbox: str, sender: str, before_ms: int) -> bool:
        """Whether a person who was never linked to the sender had a turn in the chat, or retried one."""
        ever = self.people(sender, 0, float("inf"))
        return any(who not in ever for at, who in self._heard.get(mailbox, []) if at < before_ms)

    def people(self, sender: str, since_s: float, until_s: float) -> People:
        """Every principal that an account may have been in a span of time."""
        company = self._evidence.company
        changes = company.identities.changes if company is not None else []
        others = {name for change in changes for name in (change.principal, change.person)}
        found, last = {sender}, set[str]()
        while company is not None and found != last:  # two accounts may be one person through a third
            last = set(found)
            found |= {
                other
                for other in others
                if any(company.identities.may_be_one(one, other, since_s, until_s) for one in last)
            }
        return frozenset(found)

    def said(self, text: str) -> list[WordOrigin]:
        return [self.origins[mark[1:]] for mark in marks_in(text) if mark[1:] in self.origins]

    def notes(self, text: str) -> Iterator[Note]:
        for found in NOTE.finditer(text):
            origins = tuple(self.origins[mark[1:]] for mark in found[3].split() if mark[1:] in self.origins)
            if origins:
                yield Note(found[0], origins, self._author(found[1], origins))

    def _author(self, made_by: str, origins: Sequence[WordOrigin]) -> People:
        """The owner of a private note: the speaker, unless others spoke in the session that it was extracted from.

        Words said while accounts are linked stay with the principal they were said as, so one account may have turns of
        two principals in a session: a note extracted from that session belongs to the chat.
        """
        together = frozenset.intersection(*(one.said_by for one in origins))
        if not together or any(one.in_group for one in origins):
            return frozenset()
        turns = [turn for one in origins for turn in self._speakers.get(one.session, [])]
        speakers = {turn["principal"] for turn in turns}
        is_ones = len(speakers) == 1 and speakers <= together
        moved = len({turn["mailbox"] for turn in turns}) > 1
        return together if made_by == "kept" or (is_ones and not moved) else frozenset()

    # --- readers

    @cached_property
    def _turns(self) -> dict[tuple[str, int], Row]:
        return {(row["session"], row["n"]): row for row in self._evidence.rows["turn"]}

    @cached_property
    def _groups(self) -> dict[str, bool]:
        return {origin.mailbox: origin.in_group for origin in self.origins.values()}

    @cached_property
    def _brought(self) -> dict[str, People]:
        """By chat: the people who resumed a session there before anyone else had spoken there."""
        carried_out = {row["message"]: row["at"] for row in self._evidence.rows["reply"] if row["message"]}
        found: dict[str, People] = {}
        for row in self._evidence.rows["inbound"]:
            sent = self._senders.get(row["event_id"])
            if sent is None or not sent.say.text.startswith(RESUME) or row["state"] != "command":
                continue
            at: int = carried_out.get(row["message"]) or row["at"]  # the links of this moment count
            people = self.people(sent.say.sender, sent.first_at, _seconds(at))
            is_shared = any(
                other["mailbox"] == row["mailbox"]
                and (other["seq"] < row["seq"] or other["at"] < at)
                and other["turn"]
                and other["principal"].removeprefix(ROOM) not in people
                and not other["principal"].startswith("agent:")
                for other in self._evidence.rows["inbound"]
            )
            if not is_shared:
                found[row["mailbox"]] = found.get(row["mailbox"], frozenset()) | people
        return found

    @cached_property
    def _spoken(self) -> dict[tuple[str, int], list[str]]:
        """By turn: the senders of the words that it answers. A repeated turn stays its first speaker's."""
        found: dict[tuple[str, int], list[str]] = {}
        said = {mark: sent for sent in self._evidence.sent for mark in marks_in(sent.say.text)}
        for entry in self._evidence.rows["entry"]:
            body = body_of(entry) if entry["kind"] == "user" else None
            if isinstance(body, UserSaid):
                speakers = [self._speaker(body, said[mark]) for mark in marks_in(body.text) if mark in said]
                found.setdefault((entry["session"], entry["turn"]), []).extend(speakers)
        for row in self._evidence.rows["inbound"]:  # the words of a turn may have been deleted
            sent = self._senders.get(row["event_id"])
            is_own = sent is not None and marks_in(sent.say.text)  # not a /retry of another person's words
            if sent is not None and is_own and row["turn"] and not found.get((row["session"], row["turn"])):
                found[row["session"], row["turn"]] = [sent.say.sender]
        return found

    def _speaker(self, body: UserSaid, sent: SentMessage) -> str:
        """The sender. Repeated words stay those of the person for whom the sender spoke, also after an unlink."""
        sender = sent.say.sender
        if body.event_id == sent.say.event_id:
            return sender
        until = sent.first_at if sent.acked_at is None else sent.acked_at
        return body.principal if body.principal in self.people(sender, sent.first_at, until) else sender

    def reader(self, session: str, n: int, until_ms: int) -> Reader | None:
        """The speaker of a turn; None if unknown."""
        turn = self._turns.get((session, n))
        senders = self._spoken.get((session, n), [])
        if turn is None or turn["mailbox"] not in self._groups or not senders:
            return None
        came_at = [
            self._senders[row["event_id"]].first_at
            for row in self._evidence.rows["inbound"]
            if (row["session"], row["turn"]) == (session, n) and row["event_id"] in self._senders
        ]
        since = min(came_at, default=_seconds(turn["opened_at"]))
        people = frozenset[str]().union(*(self.people(one, since, _seconds(until_ms)) for one in senders))
        sessions = frozenset(reach.session for reach in self._evidence.lineage.line(session))
        return Reader(
            what=f"turn {n} of {session}",
            people=people,
            mailbox=turn["mailbox"],
            sessions=sessions,
            in_group=self._groups[turn["mailbox"]],
            in_company=all(self._others_spoke(turn["mailbox"], one, turn["opened_at"]) for one in senders),
            brought_by=self._brought.get(turn["mailbox"], frozenset()),
        )

    def readers(self, asked: ModelAsked) -> list[Reader]:
        """The readers of a request. A summary or an extraction is for everyone who speaks in the session."""
        turns = [asked.turn] if asked.task is ModelTask.REPLY else [n for s, n in self._turns if s == asked.session]
        found = [one for n in turns if (one := self.reader(asked.session, n, asked.at_ms)) is not None]
        if asked.task is ModelTask.EXTRACT:  # the request shows the notes that its answer may change
            return [replace(one, in_company=False) for one in found]
        return found


def _seconds(at_ms: int) -> float:
    return (at_ms - START_MS) / 1000


# --- what models were shown ----------------------------------------------------------------------------------------


def contexts_are_for_their_readers(evidence: Evidence) -> Found:
    """Every request shows its reader only what was said to them, by them, or in their group."""
    archive = Archive(evidence)
    for asked in evidence.asked:
        readers = archive.readers(asked)
        if readers:
            for message in asked.messages:
                yield from (f"{asked.task.value}: {what}" for what in _wrong_in(archive, message, readers))


def _wrong_in(archive: Archive, message: ModelMessage, readers: Sequence[Reader]) -> Found:
    is_recalled = message.data == RECALL
    for origin in archive.said(message.content):
        if not any(one.may_recall(origin) if is_recalled else one.may_hear(origin) for one in readers):
            yield _told(readers[0], origin, message.data or message.role)
    for note in archive.notes(message.content):
        if not any(one.may_read(note) for one in readers):
            yield f"{readers[0].what} for {sorted(readers[0].people)} shows {note.text!r}: {_from(note.origins)}"


def _told(reader: Reader, origin: WordOrigin, where: str) -> str:
    return f"{reader.what} for {sorted(reader.people)} shows {origin.mark} as {where}: {_from([origin])}"


def _from(origins: Iterable[WordOrigin]) -> str:
    return ", ".join(
        f"{one.mark} of {sorted(one.said_by)} in {'group' if one.in_group else 'private'} {one.mailbox}"
        for one in origins
    )


# --- where notes and words are kept --------------------------------------------------------------------------------


def notes_are_kept_apart(evidence: Evidence) -> Found:
    """No note of a model is shared with everyone, and no scope has notes of people who may not read each other's."""
    archive = Archive(evidence)
    kept: dict[tuple[str, str], list[Note]] = {}
    for row in evidence.rows["memory_op"]:
        notes = list(archive.notes(bytes(row["text"]).decode()))
        if notes and not row["subject"]:
            yield f"{notes[0].text!r} is shared with everybody: {_from(notes[0].origins)}"
        kept.setdefault((row["agent"], row["subject"]), []).extend(notes)
    for (agent, scope), notes in kept.items():
        groups = [origins for note in notes if (origins := note.origins)]
        yield from (f"{scope!r} of {agent} holds {what}" for what in _mixed(groups))


def places_are_kept_apart(evidence: Evidence) -> Found:
    """No place at a provider has private words of two people, or private words beside those of a group."""
    archive = Archive(evidence)
    for lane, server in evidence.servers.items():
        places: dict[str, list[tuple[WordOrigin, ...]]] = {}
        for parcel in server.effects:
            said = archive.said("\n".join(line.text for turn in parcel.turns for line in turn.lines))
            noted = [note.origins for note in archive.notes(parcel.note.text)] if parcel.note else []
            places.setdefault(parcel.place, []).extend([*((origin,) for origin in said), *noted])
        for place, found in places.items():
            yield from (f"{lane.provider} of {lane.agent} holds at {place} {what}" for what in _mixed(found))


def _mixed(found: Sequence[tuple[WordOrigin, ...]]) -> Found:
    """Words that share neither the chat, nor the session, nor in private the author with the first."""
    for origins in found[1:]:
        first, other = found[0][0], origins[0]
        is_same_chat = first.mailbox == other.mailbox or first.session == other.session
        is_same_person = not first.in_group and not other.in_group and bool(first.said_by & other.said_by)
        if not is_same_chat and not is_same_person:
            yield f"{_from([first])} beside {_from([other])}"
            return


def looks_are_for_whom_they_are(evidence: Evidence) -> Found:
    """A query at rest finds only the person's own words and those of their groups."""
    archive = Archive(evidence)
    mailboxes = {row["address"]: row["id"] for row in evidence.rows["mailbox"]}
    for look in evidence.looks:
        mailbox = mailboxes.get(str(look.chat.address), "") if look.chat else ""
        in_group = look.chat is not None and look.chat.type != "dm"
        people = archive.people(look.sender, look.at_s, look.at_s)
        reader = Reader(f"{look.what} at rest", people, mailbox, frozenset(), in_group)
        for origin in archive.said(look.text):
            if not reader.may_recall(origin):
                yield _told(reader, origin, look.what)
        for note in archive.notes(look.text):
            if not reader.may_read(note):
                yield f"{reader.what} for {sorted(people)} shows {note.text!r}: {_from(note.origins)}"
