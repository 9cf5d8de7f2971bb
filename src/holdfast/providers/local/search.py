"""Searching the index. Every SQL query holds the boundaries of memory/recall.py (`_VISIBLE`); the tokens of
scope_tokens.py skip nearly all lines outside them, so the cost of a query does not grow with other people's lines.

Visible lines: those of the same agent in the same session or chat; the asker's private turns, anywhere but in a group
(or there too, if the operator allows it); in private also the asker's own turns in groups with their answers, and no
other person's. A note is visible where memory/visibility.py allows its scope.

ranking.py scores lines; this module finds them. A vector search would be one more `TermMatches`: lines near the
question in meaning, weighted like a term, found under the same `_VISIBLE`.
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
from holdfast.providers.local import scope_tokens
from holdfast.providers.local.index_file import rows
from holdfast.providers.local.index_writer import decode
from holdfast.providers.local.ranking import (
    DEFAULT,
    IndexedLine,
    ParsedQuestion,
    ScenePosition,
    TermMatches,
    final_score,
    line_scores,
    read_question,
    scene_scores,
    spread_scores,
)

SEEN_MAX = 2_000  # lines read per word of the question, the newest first
SEEN_LESS_MAX = 500  # the same per synonym: a more frequent one says little
SPREADING_MAX = 200  # lines whose score spreads to their neighbours
JUDGED_MAX = 120  # lines that are scored in full
SCENE_LINES = 20  # approximate lines of a scene, to estimate how rare a word is among scenes

_TRACE = ", ".join(f"line.{field}" for field in IndexedLine._fields)
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
class IndexSearch:
    """One query, on one connection, inside one read transaction."""

    db: apsw.Connection
    query: RecallQuery
    now: Instant

    def best(self, name: ProviderName, limit: int) -> list[Recollection]:
        """The best lines with their text, best first."""
        ranked = rank(self.question(), self)
        return [self._recollection(name, score, line) for score, line in ranked[:limit]]

    def question(self) -> ParsedQuestion:
        return read_question(
            self.query.text,
            voices=self.voices(),
            asker=self.query.key.principal,
            agent=self.query.agent,
            address=self.query.naming.address,
            now=self.now,
        )

    def voices(self) -> list[str]:
        """The speakers of this chat and of every chat that the asker spoke in."""
        return [row[0] for row in self.db.execute(_VOICES, self._scope)]

    def total(self) -> int:
        """The approximate number of lines: the newest id."""
        return int(rows(self.db, "select coalesce(max(id), 0) from line")[0][0])

    def seen(self, *sought: str, most: int = SEEN_MAX) -> list[IndexedLine]:
        """The visible lines that have these stems in a row."""
        side_by_side = f'stems : "{" ".join(sought)}"'
        sought_for = side_by_side if self.query.audience.sees_all else f"{side_by_side} AND {self._token_filter}"
        return list(self._traces(_SEEN, sought=sought_for, most=most))

    def around(self, scene: int, first: int, last: int) -> Iterator[IndexedLine]:
        return self._traces(_AT, scene=scene, first=first, last=last)

    def _traces(self, sql: str, **values: str | int) -> Iterator[IndexedLine]:
        return map(IndexedLine._make, self.db.execute(sql, {**self._scope, **values}))

    @cached_property
    def _token_filter(self) -> str:
        """The FTS5 condition that a line carries one of the query's scope tokens."""
        return f"scope : ({' OR '.join(scope_tokens.question_scopes(self.query, self._groups()))})"

    def _groups(self) -> list[str]:
        """The asker's groups, at most one more than the limit for listing them."""
        if self.query.group:
            return []
        own = (row[0] for row in self.db.execute(_OWN, self._scope))
        return list(islice(filter(is_group, own), scope_tokens.GROUPS_MAX + 1))

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

    def _recollection(self, name: ProviderName, score: float, line: int) -> Recollection:
        session, turn, speaker, at, delivery, seq, body, kind, principal = rows(self.db, _BODY, (line,))[0]
        return Recollection(
            provider=name,
            text=decode(body),
            score=round(score, 4),
            session=SessionId(session),
            turn=turn or None,
            speaker=speaker,
            at=Instant(at),
            ref=f"{delivery}/{seq}",
            scope=principal if kind == "note" else None,
        )


def rank(question: ParsedQuestion, search: IndexSearch) -> list[tuple[float, int]]:
    """Score and id of the lines with a score, best first."""
    seen = {
        term: search.seen(term, most=SEEN_MAX if weight == 1 else SEEN_LESS_MAX)
        for term, weight in question.terms.items()
    }
    possible = (pair for pair in question.phrases if all(seen.get(term, True) for term in pair))
    phrases = [TermMatches(DEFAULT.phrase, search.seen(*pair)) for pair in possible]
    matches = [TermMatches(question.terms[term], lines) for term, lines in seen.items() if lines]
    total = search.total()
    scores = line_scores([*matches, *(one for one in phrases if one.lines)], total)
    lines = {line.id: line for one in (*matches, *phrases) for line in one.lines}
    strongest = nlargest(SPREADING_MAX, scores, key=lambda line: (scores[line], line))
    positions = spread_scores([lines[line] for line in strongest], scores)
    scenes = scene_scores(matches, total // SCENE_LINES)
    promising = nlargest(
        JUDGED_MAX, positions, key=lambda position: positions[position] + DEFAULT.scene * scenes.get(position[0], 0.0)
    )
    judged = _lines_at(promising, lines.values(), search)
    return sorted(
        (final_score(one, positions[one.scene_position], scenes.get(one.scene, 0.0), question) for one in judged),
        reverse=True,
    )


def _lines_at(
    positions: Sequence[ScenePosition], known: Iterable[IndexedLine], search: IndexSearch
) -> list[IndexedLine]:
    """The lines at the positions: known ones, and others from the index."""
    wanted = set(positions)
    found = {line.scene_position: line for line in known if line.scene_position in wanted}
    missing: dict[int, list[int]] = {}
    for scene, position in wanted - set(found):
        missing.setdefault(scene, []).append(position)
    for scene, numbers in missing.items():
        for line in search.around(scene, min(numbers), max(numbers)):
            if line.scene_position in wanted:
                found.setdefault(line.scene_position, line)
    return list(found.values())
