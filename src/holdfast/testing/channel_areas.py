"""Areas of channels: features that only some histories use, beside messages, models, tools and memory.

Each area has a random stream of its own that decides whether a history has it, so adding an area leaves other histories
unchanged. A history that has an area also gets a few faults at the verbs of that area.
"""

import random
from collections.abc import Mapping
from enum import Enum

from holdfast.testing.crash import SIDES, CrashPoint
from holdfast.testing.faults import DOWN_MS_MAX, CrashAtVerb, Fault, PauseAtVerb, VerbFails

AREA_FAULTS_MAX = 2  # of each area
OCCURRENCES_MAX = 4


class ChannelArea(Enum):
    STREAM = "rooms"  # a platform without redelivery, read from watermarks; attachments; chats that get new ids
    DRAFTS = "drafts"  # replies that are shown while the model generates them
    AGENTS = "agents"  # agents that message each other
    LINKS = "links"  # principals that are linked and unlinked
    MOVES = "moves"  # an operator moves an address
    RESEND = "resend"  # an operator resends uncertain and failed replies
    DECIDE = "decide"  # an operator decides approvals, beside the people in the chat


SHARES: Mapping[ChannelArea, float] = {
    ChannelArea.STREAM: 0.08,
    ChannelArea.DRAFTS: 0.3,
    ChannelArea.AGENTS: 0.07,
    ChannelArea.LINKS: 0.12,
    ChannelArea.MOVES: 0.1,
    ChannelArea.RESEND: 0.3,
    ChannelArea.DECIDE: 0.4,
}
NEED_CHATS = frozenset({ChannelArea.DRAFTS, ChannelArea.RESEND})  # only where replies are posted
VERBS: Mapping[ChannelArea, tuple[str, ...]] = {
    ChannelArea.STREAM: (
        *("accept_message", "note_position", "read_positions", "move_chat"),
        *("count_attachment_bytes", "is_admitted"),
    ),
    ChannelArea.DRAFTS: (
        "intend_draft",
        "note_draft",
        "release_draft",
        "take_stray_drafts",
        "drop_draft",
        "claim_replies",
    ),
    ChannelArea.AGENTS: ("take_step", "claim_replies", "settle_reply"),
    ChannelArea.LINKS: ("link_principals", "unlink_principal", "linked_principals"),
    ChannelArea.MOVES: ("move_address",),
    ChannelArea.RESEND: ("resend_reply",),
    ChannelArea.DECIDE: ("decide_approval",),
}


def channel_areas_of(seed: int | str, *, chats: bool) -> frozenset[ChannelArea]:
    """The areas of a history; `chats` says whether its replies are posted."""
    drawn = {area for area in ChannelArea if random.Random(f"{seed}/area/{area.value}").random() < SHARES[area]}
    return frozenset(drawn if chats else drawn - NEED_CHATS)


def channel_area_faults(seed: int | str, areas: frozenset[ChannelArea], *, lease_ms: int) -> list[Fault]:
    """A few faults at the verbs of each area."""
    faults: list[Fault] = []
    for area in sorted(areas, key=lambda area: area.value):
        rng = random.Random(f"{seed}/area/{area.value}/faults")
        for _ in range(rng.randrange(AREA_FAULTS_MAX + 1)):
            point = CrashPoint(rng.choice(VERBS[area]), rng.choice(SIDES))
            occurrence, down_ms = 1 + rng.randrange(OCCURRENCES_MAX), rng.randrange(DOWN_MS_MAX)
            pause_ms = int(lease_ms * rng.uniform(0.5, 2.0))
            kinds: tuple[Fault, ...] = (
                CrashAtVerb(point, occurrence, down_ms),
                VerbFails(point, occurrence),
                PauseAtVerb(point, occurrence, pause_ms),
            )
            faults.append(rng.choice(kinds))
    return faults
