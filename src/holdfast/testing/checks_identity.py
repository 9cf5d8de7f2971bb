"""I26: recall follows the links between principals, also for prefetched recollections."""

from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.checks_recall import TOKEN
from holdfast.testing.clock import START_MS
from holdfast.testing.evidence import Evidence, Found
from holdfast.testing.rows import body_of
from holdfast.turns.journal import Recalled


def recalls_end_with_the_link(evidence: Evidence) -> Found:
    """I26: a turn that began after an unlink is shown nothing that was looked up for the other principal."""
    if evidence.company is None or not evidence.has(ChannelArea.LINKS):
        return
    log = evidence.company.identities
    turns = {(row["session"], row["n"]): row for row in evidence.rows["turn"]}
    lookups = {lookup.n: lookup for lookup in evidence.lookups}
    for entry in evidence.rows["entry"]:
        body = body_of(entry) if entry["kind"] == "recall" else None
        if not isinstance(body, Recalled):
            continue
        began_s, shown_s = (
            (at - START_MS) / 1000 for at in (turns[entry["session"], entry["turn"]]["opened_at"], entry["at"])
        )
        for found in TOKEN.findall(body.text):
            query = lookups[int(found[0])].query
            for other in query.kin:
                if not log.may_be_one(query.key.principal, other, began_s, shown_s):
                    yield (
                        f"entry {entry['seq']} of {entry['session']} shows {query.key.principal} what was looked up "
                        f"for {other} too, who was somebody else"
                    )


def links_are_as_asked_for(evidence: Evidence) -> Found:
    """I26: at rest the links are exactly those requested last."""
    if evidence.company is None or not evidence.has(ChannelArea.LINKS):
        return
    log = evidence.company.identities
    linked: dict[str, str] = {}
    for change in log.changes:
        if change.linked:
            linked[change.principal] = change.person
        else:
            linked.pop(change.principal, None)
    kept = {row["principal"]: row["person"] for row in evidence.more["identity"] if row["principal"] != row["person"]}
    if kept != linked:
        yield f"{kept} are linked; asked for were {linked}"
