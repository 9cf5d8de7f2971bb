"""People who may not see each other's words and share one agent: their messages in private and in groups, and notes.

A note spells the mark of its message with `w` instead of `m` (`w607` for `m607`), so that notes and messages can be
distinguished wherever they appear, and both identify the author of the words (checks_visibility.py).
"""

import json
import random
import re
from collections.abc import Mapping, Sequence

from holdfast.testing.workload import CHATS, FILLER, SENDERS, Chat, Say, mark_of, marks_in
from holdfast.turns.context import ModelMessage

MEMORY, RECALL, HISTORY = "memory", "recall", "history"  # the tools of these histories
FIRST = 1_100  # the first number of these people's messages
SAID = 19
SAID_WITHIN_MS = 14_000  # longer than an epoch, so that its notes are shown to later speakers
PRIVATE: Mapping[Chat, tuple[str, ...]] = {
    CHATS[0]: SENDERS["home"],
    Chat("fern", "dm", "den"): ("ada",),
    Chat("fern", "dm", "barn"): ("bob",),
    Chat("fern", "dm", "cave"): ("cy",),
    Chat("fern", "dm", "nook"): ("mallory",),
    Chat("fern", "dm", "booth"): ("ada", "mallory"),  # not a group, but two people speak there
}
GROUPS: Mapping[Chat, tuple[str, ...]] = {
    CHATS[1]: SENDERS["club"],
    Chat("fern", "group", "dock", durably=True): ("bob", "cy", "mallory"),
}
PLACES: Mapping[Chat, tuple[str, ...]] = {**PRIVATE, **GROUPS}
SHARED = [chat for chat, people in PRIVATE.items() if len(people) > 1]
PEOPLE = ("ada", "bob", "cy", "mallory")
ANYWHERE = (("/new", 6), ("/branch", 2), ("/compress", 2), ("/retry", 1), ("/undo", 1), ("/delete", 1))
IN_PRIVATE = (*ANYWHERE, ("/title alpha", 7), ("/title Beta", 2), ("/resume alpha", 6), ("/resume beta", 2))
IN_GROUPS = (*ANYWHERE, ("/title Beta", 1), ("/resume alpha", 9), ("/resume beta", 2))
WISHES = (MEMORY, RECALL, HISTORY)
KEPT_MAX = 12  # marks in one extracted note
WORDS = re.compile(r"\bm(\d{2,})\b")


def strangers_say(seed: int | str) -> list[Say]:
    rng = random.Random(f"{seed}/strangers")
    chats = [*rng.sample(list(PRIVATE), 4), *rng.sample(list(GROUPS), rng.choice((1, 2)))]
    return [*(_say(seed, n, chats) for n in range(FIRST, FIRST + SAID)), *_tale(seed)]


def _tale(seed: int | str) -> list[Say]:
    """A private session gets a title and is resumed in another chat, in which people speak before and after."""
    rng = random.Random(f"{seed}/strangers/tale")
    there = rng.choice(rng.choices((SHARED, list(GROUPS), list(PRIVATE)), (4, 3, 3))[0])
    asks = rng.choice(PLACES[there])
    whose = asks if rng.random() < 0.6 else rng.choice(PEOPLE)
    home = rng.choice([chat for chat, people in PRIVATE.items() if people == (whose,)])
    others = [one for one in PLACES[there] if one != asks] or [asks]
    told = [
        (home, whose, rng.choice(("{} ", "{} use memory ")) + FILLER[:20], 0),
        (there, rng.choice(others), "{} use memory " + FILLER[:20], rng.choice((0, 2_500))),
        (home, whose, "/title alpha", 4_000),
        (there, asks, "/resume alpha", 8_000),
        (there, rng.choice(others), "{} " + FILLER[:20], 10_500),
        (there, asks, "{} " + FILLER[:30], 11_500),
    ]
    return [
        Say(
            n=n,
            at_ms=at_ms + rng.randrange(1_000),
            chat=chat,
            sender=sender,
            text=text.format(mark_of(n)),
            addressed=True,
            human=True,
            conflicts=False,
        )
        for n, (chat, sender, text, at_ms) in enumerate(told, FIRST + SAID)
    ]


def _say(seed: int | str, n: int, chats: Sequence[Chat]) -> Say:
    rng = random.Random(f"{seed}/strangers/{n}")
    chat = rng.choice(chats)
    return Say(
        n=n,
        at_ms=rng.randrange(SAID_WITHIN_MS),
        chat=chat,
        sender=rng.choice(PLACES[chat]),
        text=_text(rng, n, chat),
        addressed=chat.type == "dm" or rng.random() < 0.8,
        human=True,
        conflicts=False,
    )


def _text(rng: random.Random, n: int, chat: Chat) -> str:
    if rng.random() < 0.35:
        words, weights = zip(*(IN_PRIVATE if chat.type == "dm" else IN_GROUPS), strict=True)
        return str(rng.choices(words, weights)[0])
    wish = rng.choices(("", *(f" use {name}" for name in WISHES)), (5, 5, 2, 1))[0]
    return f"{mark_of(n)}{wish} {FILLER[: rng.choice((15, 40, 70))]}".strip()


def canary(mark: str) -> str:
    """The mark of a message as a note spells it."""
    return WORDS.sub(r"w\1", mark)


# --- the model -------------------------------------------------------------------------------------------


def arguments_of(name: str, messages: Sequence[ModelMessage], number: int) -> str:
    """The arguments for the tool that the newest text requests: a note, or a search for common words."""
    said = [message.content for message in messages if message.role == "user" and not message.data]
    if name == MEMORY and number % 3:
        target = "user" if number % 2 else "memory"
        content = f"kept {number} {' '.join(map(canary, marks_in(said[-1])[:1]))}"
        return json.dumps({"action": "add", "target": target, "content": content})
    if name == MEMORY:
        return json.dumps({"action": "read", "target": "user" if number % 2 else "memory"})
    return json.dumps({"query": FILLER[:40]} if name == RECALL else {"limit": 5})


def extracted(number: int, messages: Sequence[ModelMessage]) -> str:
    """A note that contains the marks of its messages."""
    marks = dict.fromkeys(mark for message in messages if message.role == "user" for mark in marks_in(message.content))
    return " ".join([f"note {number}", *map(canary, list(marks)[-KEPT_MAX:])])
