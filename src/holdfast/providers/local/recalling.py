"""Questions to the index. The boundaries of memory/recall.py stand inside every query (`_VISIBLE`); the tokens of
scopes.py lead the index past nearly everything outside them, so a question's work does not grow with what others said.

What may be shown: lines of the same agent that were said in the same session or chat; what the asker said in private,
anywhere but in a group (or there too, where the operator allows it); in private also what the asker said in groups and
was answered there, and nothing that others said in them. A note is shown where memory/visibility.py allows its scope.

Ranking is ranking.py; this looks up what it asks for. Vectors, when they come, are one more `Sighting`: lines near
the question in meaning, weighted like a term, found under the same `_VISIBLE`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from itertools import islice

import apsw

from holdfast.kernel.ids import Instant, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.memory.visibility import is_group
from holdfast.providers.local import scopes
from holdfast.providers.local.index_file import rows
from holdfast.providers.local.ranking import (
    DEFAULT,
    Question,
    Sighting,
    Spot,
    Trace,
    read_question,
    said_worth,
    scene_worth,
    spread,
    value,
)
from holdfast.providers.local.writing import decode

SEEN_MAX = 2_000  # lines looked at per word of the question, the newest first
SEEN_LESS_MAX = 500  # the same per kindred word: one that is in more of them would say little
SPREADING_MAX = 200  # lines whose worth flows on
JUDGED_MAX = 120  # lines that are looked at closely
SCENE_LINES = 20  # a scene has about so many, for judging how rare a word is among scenes

_TRACE = ", ".join(f"line.{field}" for field in Trace._fields)
_VISIBLE = """
line.agent = :agent and (
  :all or (line.kind = 'note' and line.principal in (select value from json_each(:scopes)))
  or (line.kind = 'said' and (line.session = :session or (line.address != '' and line.address = :address)))
  or (line.kind = 'said' and not line.in_group and :private
      and line.principal in (select value from json_each(:askers)))
  or (line.kind = 'said' and line.in_group and :alone
      and line.principal in (select value from json_each(:askers)))
)
"""
_SEEN = f"""
select {_TRACE} from words cross join line on line.id = words.rowid
where words match :sought and {_VISIBLE} order by words.rowid desc limit :most
"""  # noqa: S608 - our own constants
_AT = f"""
select {_TRACE} from line where line.scene = :scene and line.position between :first and :last and {_VISIBLE}
"""  # noqa: S608
_VOICES = """
select speaker from voice where agent = :agent and address = :address
union
select voice.speaker from voice as own indexed by voice_by_speaker
cross join voice on voice.agent = own.agent and voice.address = own.address
where own.agent = :agent and own.speaker in (select value from json_each(:askers))
"""
_OWN = """
select distinct address from voice indexed by voice_by_speaker
where agent = :agent and speaker in (select value from json_each(:askers))
"""
_BODY = "select session, turn, speaker, at, delivery, seq, body, kind, principal from line where id = ?"


@dataclass(frozen=True)
class Asking:
    """One question, on one connection, inside one read transaction."""

    db: apsw.Connection
    query: RecallQuery
    now: Instant

    def best(self, name: ProviderName, limit: int) -> list[Recollection]:
        """The best lines first, with their words."""
        ranked = rank(self.question(), self)
        return [self._recollection(name, worth, line) for worth, line in ranked[:limit]]

    def question(self) -> Question:
        return read_question(
            self.query.text,
            voices=self.voices(),
            asker=self.query.key.principal,
            agent=self.query.agent,
            address=self.query.naming.address,
            now=self.now,
        )

    def voices(self) -> list[str]:
        """Who spoke here, and wherever the asker did."""
        return [row[0] for row in self.db.execute(_VOICES, self._scope)]

    def total(self) -> int:
        """How many lines there are, roughly: their newest number."""
        return int(rows(self.db, "select coalesce(max(id), 0) from line")[0][0])

    def seen(self, *sought: str, most: int = SEEN_MAX) -> list[Trace]:
        """The visible lines that have these stems side by side."""
        side_by_side = f'stems : "{" ".join(sought)}"'
        sought_for = side_by_side if self.query.audience.sees_all else f"{side_by_side} AND {self._sieve}"
        return list(self._traces(_SEEN, sought=sought_for, most=most))

    def around(self, scene: int, first: int, last: int) -> Iterator[Trace]:
        return self._traces(_AT, scene=scene, first=first, last=last)

    def _traces(self, sql: str, **values: str | int) -> Iterator[Trace]:
        return map(Trace._make, self.db.execute(sql, {**self._scope, **values}))

    @cached_property
    def _sieve(self) -> str:
        """What a line must have in the index to be worth a look."""
        return f"scope : ({' OR '.join(scopes.question_scopes(self.query, self._groups()))})"

    def _groups(self) -> list[str]:
        """The groups that whoever asks may look into, as far as it matters which."""
        if self.query.group:
            return []
        own = (row[0] for row in self.db.execute(_OWN, self._scope))
        return list(islice(filter(is_group, own), scopes.GROUPS_MAX + 1))

    @cached_property
    def _scope(self) -> dict[str, str | int]:
        query = self.query
        return {
            "agent": query.agent,
            "session": query.key.session,
            "address": query.naming.address,
            "askers": json.dumps(query.askers),
            "scopes": json.dumps(query.audience.scopes),
            "private": not query.group or query.private_in_groups,
            "alone": not query.group,
            "all": query.audience.sees_all,
        }

    def _recollection(self, name: ProviderName, worth: float, line: int) -> Recollection:
        session, turn, speaker, at, delivery, seq, body, kind, principal = rows(self.db, _BODY, (line,))[0]
        return Recollection(
            provider=name,
            text=decode(body),
            score=round(worth, 4),
            session=SessionId(session),
            turn=turn or None,
            speaker=speaker,
            at=Instant(at),
            ref=f"{delivery}/{seq}",
            scope=principal if kind == "note" else None,
        )


def rank(question: Question, asking: Asking) -> list[tuple[float, int]]:
    """Worth and id of the lines that are worth something, best first."""
    seen = {
        term: asking.seen(term, most=SEEN_MAX if weight == 1 else SEEN_LESS_MAX)
        for term, weight in question.terms.items()
    }
    possible = (pair for pair in question.phrases if all(seen.get(term, True) for term in pair))
    phrases = [Sighting(DEFAULT.phrase, asking.seen(*pair)) for pair in possible]
    sightings = [Sighting(question.terms[term], lines) for term, lines in seen.items() if lines]
    total = asking.total()
    worth = said_worth([*sightings, *(one for one in phrases if one.lines)], total)
    lines = {line.id: line for one in sightings for line in one.lines}
    strongest = nlargest(SPREADING_MAX, worth, key=lambda line: (worth[line], line))
    spots = spread([lines[line] for line in strongest], worth)
    scenes = scene_worth(sightings, total // SCENE_LINES)
    promising = nlargest(JUDGED_MAX, spots, key=lambda spot: spots[spot] + DEFAULT.scene * scenes.get(spot[0], 0.0))
    judged = _lines_at(promising, lines.values(), asking)
    return sorted((value(one, spots[one.spot], scenes.get(one.scene, 0.0), question) for one in judged), reverse=True)


def _lines_at(spots: Sequence[Spot], known: Iterable[Trace], asking: Asking) -> list[Trace]:
    """The lines at the spots, where there are any: those that are known, and the others from the index."""
    wanted = set(spots)
    found = {line.spot: line for line in known if line.spot in wanted}
    missing: dict[int, list[int]] = {}
    for scene, position in wanted - set(found):
        missing.setdefault(scene, []).append(position)
    for scene, positions in missing.items():
        for line in asking.around(scene, min(positions), max(positions)):
            if line.spot in wanted:
                found.setdefault(line.spot, line)
    return list(found.values())
