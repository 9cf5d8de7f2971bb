"""I36: while an agent is paused it begins no turn. The audit trail proves when it was paused."""

from collections import defaultdict

from holdfast.testing.evidence import Evidence, Found

FOR_EVER = 1 << 62


def paused_agents_begin_no_turn(evidence: Evidence) -> Found:
    pauses = _pauses(evidence)
    agents = {row["id"]: row["agent"] for row in evidence.rows["mailbox"]}
    for turn in evidence.rows["turn"]:
        for begun_at, ended_at in pauses.get(agents.get(turn["mailbox"], ""), ()):
            if begun_at < turn["opened_at"] < ended_at:
                yield f"turn {turn['n']} of {turn['session']} began at {turn['opened_at']}, paused since {begun_at}"


def _pauses(evidence: Evidence) -> dict[str, list[tuple[int, int]]]:
    """The begin and the end of every pause, by agent."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in sorted(evidence.rows["action"], key=lambda row: int(row["n"])):
        if row["outcome"] == "done" and row["verb"] == "agent.paused":
            found[row["subject"]].append((row["at"], FOR_EVER))
        elif row["outcome"] == "done" and row["verb"] == "agent.resumed":
            begun_at, _ = found[row["subject"]].pop()
            found[row["subject"]].append((begun_at, row["at"]))
    return found
