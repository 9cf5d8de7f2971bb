"""Slack's text markup, in both directions. Pure.

Rule 1: Slack escapes `&`, `<` and `>` in user input, so a bare `<...>` is always Slack's own markup.
Rule 2: outgoing text is escaped completely, so a model's text can never mention, link or call @channel by accident.
"""

import re
from collections.abc import Mapping

_MARK = re.compile(r"<([^<>]*)>")
_MENTION = re.compile(r"<@([A-Z0-9]+)(?:\|[^<>]*)?>")
MENTIONS_MAX = 20  # users whose names are looked up; further ones are shown as ids


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def escaped_length(text: str) -> int:
    """The length as Slack counts it: an ampersand counts five."""
    return len(escape(text))


def mentioned(raw: str) -> tuple[str, ...]:
    """The ids of the users that the text mentions, each once, in order."""
    return tuple(dict.fromkeys(_MENTION.findall(raw)))


def without_mention(raw: str, bot: str) -> str:
    """The text without a mention of the bot at its beginning."""
    found = _MENTION.match(raw.lstrip())
    if found is None or found[1] != bot:
        return raw
    return raw.lstrip()[found.end() :].lstrip(" \t,:")


def readable(raw: str, names: Mapping[str, str]) -> str:
    """The text as Slack displays it. `names` maps the mentioned users' ids to their names, where known."""
    shown = []
    end = 0
    for mark in _MARK.finditer(raw):
        shown += [unescape(raw[end : mark.start()]), _shown(mark[1], names)]
        end = mark.end()
    return "".join([*shown, unescape(raw[end:])])


def _shown(mark: str, names: Mapping[str, str]) -> str:
    target, _, label = (unescape(part) for part in mark.partition("|"))
    match target[:1]:
        case "@":
            return f"@{names.get(target[1:]) or label or target[1:]}"
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return _special(target[1:], label)
        case _:
            return _link(target, label)


def _special(target: str, label: str) -> str:
    """<!here>, <!subteam^S1|@group>, <!date^1700000000^{date}|14 Nov 2023>."""
    word, _, rest = target.partition("^")
    if label:
        return label
    return f"@{rest or word}" if word == "subteam" else f"@{word}"


def _link(target: str, label: str) -> str:
    address = target.removeprefix("mailto:")
    return address if not label or address.endswith(label) else f"{label} ({address})"
