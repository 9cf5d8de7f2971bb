"""The file that `holdfast init` writes: the commented template, with the settings that were chosen.

The template shows every setting, commented out except for one agent. It is valid as it is, and also with every setting
uncommented.
"""

import json
import re
from dataclasses import dataclass
from importlib.resources import files

TEMPLATE = files("holdfast.config").joinpath("template.toml").read_text(encoding="utf-8")
AGENT = "main"
PROVIDERS = ("honcho", "hindsight")  # services that `holdfast init` can set up
CHANNELS = ("telegram", "discord", "slack")
URLS = {"honcho": "http://127.0.0.1:8000", "hindsight": "http://127.0.0.1:8888"}
TABLE = "agents.main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The answers to the questions of `holdfast init`. Without a model the agent uses the one that is detected."""

    agent: str = AGENT
    sharing: str = "person"
    model: str = ""
    api_key_env: str = ""
    provider: str = ""
    provider_url: str = ""
    channels: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


def draft(choices: Choices) -> str:
    text = TEMPLATE.replace('\nsharing = "person"\n', f"\nsharing = {_toml(choices.sharing)}\n")
    if choices.model:
        key = {"api_key_env": choices.api_key_env} if choices.api_key_env else {}
        text = _enabled(text, f"{TABLE}.model", {"name": choices.model, **key})
    if choices.provider:  # the embedded providers stay only if they are named as well
        for embedded in ("local", "files"):
            text = _enabled(text, f"{TABLE}.memory.{embedded}", {})
        url = choices.provider_url or URLS[choices.provider]
        text = _enabled(text, f"{TABLE}.memory.{choices.provider}", {"url": url})
    for channel in choices.channels:
        text = _enabled(text, f"{TABLE}.channels.{channel}", None)
    if choices.operators:
        people = list(choices.operators)
        text = _enabled(text, f"{TABLE}.access", {"allow": people, "operators": people})
    return text if choices.agent == AGENT else _renamed(text, choices.agent)


def _enabled(text: str, table: str, settings: dict[str, object] | None) -> str:
    """The text with a table of the template in force: with these settings, or with all that are not explained."""
    head = f"#[{table}]\n"
    start = text.index(head)
    end = text.index("\n\n", start) + 1
    lines = []
    for line in text[start + len(head) : end].splitlines():
        name = re.match(r"#(\w+) = ", line)
        if name is None or "  # " in line:
            lines.append(line)
        elif settings is None:
            lines.append(line[1:])
        elif name[1] in settings:
            lines.append(f"{name[1]} = {_toml(settings[name[1]])}")
        else:
            lines.append(line)
    return "".join((text[:start], head[1:], *(f"{line}\n" for line in lines), text[end:]))


def _renamed(text: str, agent: str) -> str:
    name = agent if re.fullmatch(r"[A-Za-z0-9_-]+", agent) else _toml(agent)
    return re.sub(r"\[agents\.main\b", lambda _: f"[agents.{name}", text).replace("/hooks/main/", f"/hooks/{agent}/")


def _toml(value: object) -> str:
    """A text or a list of texts. JSON writes these as TOML does."""
    return json.dumps(value, ensure_ascii=False)
