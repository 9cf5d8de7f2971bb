"""`holdfast config show`: the settings in force, and where each comes from."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec
import typer

from holdfast.cli.command import Invocation, OnlyAgent, command
from holdfast.cli.output import Heading, Output, Part, TextTable
from holdfast.config.effective import ANY, DEFAULT, EffectiveSetting, effective_settings
from holdfast.kernel.errors import AgentNotFound
from holdfast.kernel.hardening import variables
from holdfast.runtime.app import detected_model

VALUE_CHARS_MAX = 100
DETECTED = "environment"  # of the process


@command(config=True)
async def show(
    invocation: Invocation,
    agent: OnlyAgent = None,
    written: Annotated[
        bool, typer.Option("--set", help="Only settings that holdfast.toml or the environment sets.")
    ] = False,
) -> Output:
    """Show the settings in force, and where each comes from.

    The last column names the line of the file and, for a setting that the agent takes over, the table it is written in:
    [defaults] or [models.NAME]. Values that may be secrets are not shown.

    \b
    Examples:
      holdfast config show
      holdfast config show --agent main --set
      holdfast config show --json
    """
    config = invocation.settings
    if agent is not None and config.agents is not None and agent not in config.agents:
        raise AgentNotFound(f"there is no agent {agent!r}; configured are {', '.join(sorted(config.agents))}")
    found = [_called(one, agent) for one in effective_settings(config)]
    wanted = [one for one in found if agent is None or one.owner in {"server", f"agents.{agent}"}]
    if any(_is_detected(one) for one in wanted):
        model = await detected_model(variables())
        wanted = [replace(one, value=model, origin=DETECTED) if _is_detected(one) else one for one in wanted]
    if written:
        wanted = [one for one in wanted if one.origin != DEFAULT]
    file = None if config.file is None else str(config.file)
    return Output({"file": file, "settings": wanted}, *_text(file, wanted))


def _called(one: EffectiveSetting, agent: str | None) -> EffectiveSetting:
    """Without a file every name is an agent, also the one that was asked for."""
    if agent is None or one.owner != f"agents.{ANY}":
        return one
    return replace(one, owner=f"agents.{agent}", key=f"agents.{agent}{one.key.removeprefix(one.owner)}")


def _is_detected(one: EffectiveSetting) -> bool:
    """Whether the agent has no model table, so that the model comes from the environment."""
    return one.origin == DEFAULT and one.key == f"{one.owner}.model"


def _text(file: str | None, found: Sequence[EffectiveSetting]) -> list[Part]:
    lines: list[Part] = [Heading(file or "no holdfast.toml: every name is an agent, as below")]
    for owner in dict.fromkeys(one.owner for one in found):
        rows = [
            (one.key.removeprefix(f"{owner}."), _shown(one.value), _place(one)) for one in found if one.owner == owner
        ]
        lines += [f"\n[{owner}]", TextTable(("setting", "value", "from"), rows)]
    return lines if found else [*lines, "none"]


def _shown(value: object) -> str:
    if value is None:
        return "none"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def _place(one: EffectiveSetting) -> str:
    """The line of the setting, with the table that the agent took it over from."""
    if one.line is None:
        return one.origin
    parts = one.origin.split(".")
    table = {"defaults": "[defaults], ", "models": f"[models.{parts[1]}], "}.get(parts[0], "")
    return f"{table}line {one.line}"
