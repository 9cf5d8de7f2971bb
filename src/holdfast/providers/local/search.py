"""Searching the index, in two phases: postings give the candidates, and only these lines are read and ranked.

Rule 1: every statement that reads lines holds the boundaries of memory/recall.py (`_VISIBLE`). The scopes of
        postings.py skip nearly all lines outside them, so the cost of a query does not grow with other people's lines.
Rule 2: a query reads a limited number of postings and lines, however many there are.
Rule 3: a person who has said nothing elsewhere is answered from the context, which shows their session: nothing is
        searched.
Rule 4: in a turn, lines that the context shows and copies of a line take no place of others: neither among the
        candidates nor among the results. A question that is asked every day finds its answers, and not itself.

Visible lines: those of the same agent in the same session or chat; the asker's private turns, anywhere but in a group
(or there too, if the operator allows it); in private also the asker's own turns in groups with their answers, and no
other person's. A note is visible where memory/visibility.py allows its scope.

ranking.py scores lines; this module finds them. A vector search would be one more `TermMatches`: lines near the
question in meaning, weighted like a term, among the lines of the same scopes.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import apsw

from holdfast.kernel.ids import Instant, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.memory.recall import RecallQuery, Recollection, plain_words
from holdfast.providers.local import postings, ranking
from holdfast.providers.local.postings import IndexScope

READ_MAX = 3_000  # postings that one question reads, those of rare terms first
COMMON_SHARE = 0.1  # of the asker's lines; a term in more of them says little about any
COMMON_MAX = 300  # postings that are read of all such terms together
VOICES_MAX = 200  # speakers whose names are compared with the question
CHATS_MAX = 64  # chats of the asker that these are taken from
JUDGED_MAX = 100  # lines that are scored in full
SHOWN_MAX = 1_000  # lines of the session that the context shows, newest first, that are left out
ALIKE_MAX = 3  # candidates with one likeness; which of them are copies is known when their texts are read
COMPARED_AT_ONCE = 200  # candidates whose likeness is read at once

_COLUMNS = ", ".join(f"line.{field}" for field in ranking.IndexedLine._fields)
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
_LINES = f"""
select {_COLUMNS} from json_each(:ids) as wanted cross join line on line.id = wanted.value where {_VISIBLE}
"""  # noqa: S608 - our own constants
_FRESH = f"select {_COLUMNS} from fresh cross join line on line.id = fresh.id where {_VISIBLE}"  # noqa: S608
_FRESH_ELSEWHERE = f"""
select 1 from fresh cross join line on line.id = fresh.id where line.session != :session and {_VISIBLE} limit 1
"""  # noqa: S608
_SEEN = f"""
select line.id from json_each(:ids) as wanted cross join line on line.id = wanted.value where {_VISIBLE}
"""  # noqa: S608
_LIKENESS = """
select line.id, line.likeness
from json_each(?) as wanted cross join line indexed by line_likeness on line.id = wanted.value
"""
# The scenes of the session's newest lines. The lines of a scene follow each other, as their turns do.
_SCENES = """
select first, last, (select turn from line where id = first)
  from (select min(id) as first, max(id) as last
          from (select id from line where session = ? order by id desc limit ?) group by id >> ?)
 order by first desc
"""
_SHOWN = "select id from line where id between ? and ? and session = ? and turn >= ? and kind = 'said'"
_VOICES = """
select distinct speaker from (select :here as address
  union select * from (select address from json_each(:askers) as asker cross join voice indexed by voice_by_speaker
                        on voice.agent = :agent and voice.speaker = asker.value limit :chats)) as chat
 cross join voice on voice.agent = :agent and voice.address = chat.address limit :voices
"""
_PRONOUNS = """
select speaker from voice indexed by voice_by_speaker
 where agent = :agent and speaker in (select value from json_each(:askers))
union select speaker from voice where agent = :agent and address = :here and speaker = :agent
"""
_BODIES = """
select line.id, session, turn, speaker, at, delivery, seq, body.text, kind, principal
from json_each(?) as wanted cross join line on line.id = wanted.value cross join body on body.id = line.id
"""
_FIND_ALL = """
select wanted.key, scope.id, scope.lines from json_each(?) as wanted
cross join scope on scope.agent = wanted.value ->> 0 and scope.kind = wanted.value ->> 1
  and scope.name = wanted.value ->> 2
"""
_ALL_SCOPES = "select id, lines from scope where agent = ? and kind in ('person', 'chat', 'session', 'note')"
_PARTS = """
select distinct scope.id, scope.lines from scope_part cross join scope on scope.id = scope_part.part
where scope_part.whole in (select value from json_each(?))
"""


class NamedScopes(NamedTuple):
    """The scopes that a query sees in full, sees in part, and finds through their parts."""

    full: list[IndexScope]
    partial: list[IndexScope]
    wholes: list[IndexScope]


class AskedScopes(NamedTuple):
    """The scopes of a query."""

    full: tuple[int, ...]  # every line is visible
    partial: tuple[int, ...]  # some lines may not be visible
    total: int  # approximate number of lines
    here: int = 0  # of these, lines of the query's session


def asked_scopes(db: apsw.Connection, query: RecallQuery) -> AskedScopes:
    """The scopes whose lines a query may see, without those that have no line."""
    if query.audience.sees_all:
        return all_scopes(db, query.agent)
    named = named_scopes(query)
    names = [*named.full, *named.partial, *named.wholes]
    found = {names[place]: (scope, lines) for place, scope, lines in db.execute(_FIND_ALL, (json.dumps(names),))}
    wholes = [found[name][0] for name in named.wholes if name in found]
    parts = dict(db.execute(_PARTS, (json.dumps(wholes),))) if wholes else {}
    full = dict(found[name] for name in named.full if name in found)
    partial = [found[name] for name in named.partial if name in found]
    some = {scope: lines for scope, lines in (*partial, *parts.items()) if scope not in full}
    _, here = found.get(named.wholes[0], (0, 0))
    return AskedScopes(tuple(full), tuple(some), sum(full.values()) + sum(some.values()), here)


def all_scopes(db: apsw.Connection, agent: str) -> AskedScopes:
    """Every scope of an agent with postings; their number grows with the people who share its memory."""
    found = dict(db.execute(_ALL_SCOPES, (agent,)))
    return AskedScopes(tuple(found), (), sum(found.values()))


def named_scopes(query: RecallQuery) -> NamedScopes:
    """The scopes of a query by name."""
    agent, session, address = query.agent, query.key.session, query.naming.address
    full = [IndexScope(agent, "note", scope) for scope in query.audience.scopes]
    full += [IndexScope(agent, "session", session), *([IndexScope(agent, "chat", address)] if address else [])]
    here = [IndexScope(agent, "in session", session), *([IndexScope(agent, "in chat", address)] if address else [])]
    people = [IndexScope(agent, "person", asker) for asker in query.askers]
    if not query.group:
        return NamedScopes([*full, *people], [], here)
    return NamedScopes(full, people if query.private_in_groups else [], here)


@dataclass(frozen=True)
class IndexSearch:
    """One query, on one connection, inside one read transaction."""

    db: apsw.Connection
    query: RecallQuery
    now: Instant

    def best(self, name: ProviderName, limit: int) -> list[Recollection]:
        """The best lines with their text, best first. Outside a turn all copies are listed: one too many is seen."""
        ranked, found = self.ranked(), list[Recollection]()
        is_turn, seen = self.query.shown_from is not None, {plain_words(self.query.text)}
        for start in range(0, len(ranked), limit):
            scores = {line: score for score, line in ranked[start : start + limit]}
            for line, *row in self.db.execute(_BODIES, (json.dumps(list(scores)),)):
                one = _recollection(name, scores[line], row)
                text = plain_words(one.text)
                if not (is_turn and text in seen):
                    seen.add(text)
                    found.append(one)
            if len(found) >= limit:
                break
        return found[:limit]

    def ranked(self) -> list[tuple[float, int]]:
        """Score and id of the lines with a score, best first."""
        scopes = asked_scopes(self.db, self.query)
        if self.query.shown_from == 0 and scopes.total <= scopes.here:
            fresh_elsewhere = self.db.execute(_FRESH_ELSEWHERE, self._scope).fetchone()
            if fresh_elsewhere is None:
                return []  # every visible line is in the context already
        question = self.question()
        fresh = list(self._read(_FRESH))
        total = scopes.total + len(fresh)
        matches = self._matches(question, scopes, fresh)
        scenes, candidates = ranking.likely_lines(list(matches.values()), total)
        lines = self._distinct(candidates)
        found = {term: match.found for term, match in matches.items()}
        spread = ranking.spread_scores(lines.values(), ranking.line_scores(lines.values(), question, found, total))
        scores = ranking.with_scenes(spread, scenes)
        promising = ranking.best_of({line: scores[line] for line in scores.keys() - self._shown}, JUDGED_MAX)
        more = [line for line in promising if line not in lines]
        lines |= {line.id: line for line in self._read(_LINES, ids=json.dumps(more))} if more else {}
        judged = [lines[line] for line in promising if line in lines]
        return sorted((ranking.final_score(line, scores[line.id], question) for line in judged), reverse=True)

    def _matches(
        self, question: ranking.ParsedQuestion, scopes: AskedScopes, fresh: Sequence[ranking.IndexedLine]
    ) -> dict[str, ranking.TermMatches]:
        """The lines of each term: all lines of rare terms, and the newest of the first term above the limit.

        Of more frequent terms only the number of lines is known; candidates are compared with them later.
        """
        lengths, lines = self._postings(question.terms, scopes)
        if scopes.partial:
            values = {**self._scope, "ids": json.dumps(list(set().union(*lines.values())))}
            visible = {row[0] for row in self.db.execute(_SEEN, values)}
            lengths |= {term: len(some & visible) for term, some in lines.items() if len(some) == lengths[term]}
            lines = {term: some & visible for term, some in lines.items()}
        needles = ranking.needles_of(lines)
        for line in fresh:
            for term in ranking.terms_in(line.stems, needles):
                lines[term].add(line.id)
                lengths[term] += 1
        return {
            term: ranking.TermMatches(weight, lines[term] - self._shown, max(lengths[term], len(lines[term])))
            for term, weight in question.terms.items()
        }

    def _distinct(self, candidates: Sequence[int]) -> dict[int, ranking.IndexedLine]:
        """The first candidates, with few of those that are alike."""
        chosen: list[int] = []
        alike: Counter[int] = Counter()
        for start in range(0, len(candidates), COMPARED_AT_ONCE):
            likeness = dict(self.db.execute(_LIKENESS, (json.dumps(candidates[start : start + COMPARED_AT_ONCE]),)))
            for line, kind in likeness.items():
                alike[kind] += 1
                if alike[kind] <= ALIKE_MAX:
                    chosen.append(line)
            if len(chosen) >= ranking.LIKELY_MAX:
                break
        return {line.id: line for line in self._read(_LINES, ids=json.dumps(chosen[: ranking.LIKELY_MAX]))}

    def _postings(self, terms: Collection[str], scopes: AskedScopes) -> tuple[dict[str, int], dict[str, set[int]]]:
        """The number of each term's lines, and the lines of the rarest terms within `READ_MAX`.

        Candidates come from rare terms. Of frequent ones a few lines are read, in case the question has no other;
        their rank counts on every candidate.
        """
        hashes = {term: postings.stem_hash(term) for term in terms}
        read = (*scopes.full, *scopes.partial)
        tokens = {term: [postings.token(scope, hashed) for scope in read] for term, hashed in hashes.items()}
        last = postings.last_blocks(self.db, [token for some in tokens.values() for token in some])
        lengths = {term: sum(last[token].length for token in some if token in last) for term, some in tokens.items()}
        lines: dict[str, set[int]] = {term: set() for term in terms}
        room, common = READ_MAX, scopes.total * COMMON_SHARE
        for term in sorted(lengths, key=lengths.__getitem__):
            if lengths[term] > common:
                room = min(room, COMMON_MAX)
            is_whole = lengths[term] <= room
            for token in tokens[term]:
                if token in last and room > 0:
                    some = postings.newest(self.db, token, last[token], room)
                    lines[term].update(some)
                    room -= len(some)
            if is_whole:
                lengths[term] = len(lines[term])  # two scopes may hold the same line
        return lengths, lines

    def question(self) -> ranking.ParsedQuestion:
        return ranking.read_question(
            self.query.text,
            voices=self.voices(),
            asker=self.query.key.principal,
            agent=self.query.agent,
            address=self.query.naming.address,
            now=self.now,
        )

    def voices(self) -> list[str]:
        """The speakers of this chat and of every chat that the asker spoke in; of many chats or people only some.

        The asker and the agent, whom `I` and `you` mean, are always among them if they spoke.
        """
        agent, here = self.query.agent, self.query.naming.address
        asked = {"agent": agent, "here": here, "askers": json.dumps(self.query.askers)}
        limits = {"chats": CHATS_MAX, "voices": VOICES_MAX}
        found = dict.fromkeys(row[0] for row in self.db.execute(_VOICES, {**asked, **limits}))
        if len(found) >= VOICES_MAX:
            found |= dict.fromkeys(row[0] for row in self.db.execute(_PRONOUNS, asked))
        return list(found)

    def _read(self, sql: str, **values: str | int) -> Iterator[ranking.IndexedLine]:
        return map(ranking.IndexedLine._make, self.db.execute(sql, {**self._scope, **values}))

    @cached_property
    def _shown(self) -> frozenset[int]:
        """The lines of the session that the context shows.

        Only the scene in which the context begins is read; of later scenes all lines count as shown.
        """
        session, first_turn = self.query.key.session, self.query.shown_from
        if first_turn is None:
            return frozenset()
        shown: set[int] = set()
        for first, last, turn in self.db.execute(_SCENES, (session, SHOWN_MAX, ranking.POSITION_BITS)):
            if turn >= first_turn:
                shown.update(range(first, last + 1))
            else:
                shown.update(row[0] for row in self.db.execute(_SHOWN, (first, last, session, first_turn)))
                break
        return frozenset(shown)

    @cached_property
    def _scope(self) -> dict[str, str | int]:
        query, audience = self.query, self.query.audience
        return {
            "agent": query.agent,
            "session": query.key.session,
            "address": query.naming.address,
            "askers": json.dumps(query.askers),
            "scopes": json.dumps(audience.scopes),
            "private": not query.group or query.private_in_groups,
            "alone": not query.group,
            "all": audience.sees_all,
        }


def _recollection(name: ProviderName, score: float, row: Sequence[Any]) -> Recollection:
    session, turn, speaker, at, delivery, seq, body, kind, principal = row
    return Recollection(
        provider=name,
        text=body.decode("utf-8", "surrogatepass"),
        score=round(score, 4),
        session=SessionId(session),
        turn=turn or None,
        speaker=speaker,
        at=Instant(at),
        ref=f"{delivery}/{seq}",
        scope=principal if kind == "note" else None,
    )
