"""What an agent takes over: the settings of [defaults], and the named models of [models.NAME].

Rule 1: an agent has every setting of [defaults] that its own table does not have. Tables are merged setting by setting;
        lists and texts are replaced as a whole.
Rule 2: `false` in place of a table of a memory provider or an MCP server of [defaults] leaves that one out.
Rule 3: `model = "NAME"` means the table [models.NAME]. A model table with `name = "NAME"` changes single settings of
        it, and one without a name those of the model of [defaults]. `fallbacks` and `summariser` may name such tables
        too.
Rule 4: `instructions` and `instructions_file` replace each other. An agent is left out of its own `talks_to`.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.config.secrets import located
from holdfast.config.wording import wrong
from holdfast.inbox.address import agent_name
from holdfast.kernel.errors import ConfigInvalid, InvalidName

Table = Mapping[str, Any]
Models = Mapping[str, dict[str, Any]]
Steps = tuple[str, ...]
DEFAULTS, MODELS, MODEL = "defaults", "models", "model"
OFFLINE = "practice"
INSTRUCTIONS = ("instructions", "instructions_file")
REMOVABLE = ("memory", "mcp")


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of one setting, and the key under which the file has it."""

    value: Any
    key: str


Layer = dict[Steps, Setting]  # the settings of a table and of the tables inside it


def check_model_table(file: Path, name: str, table: object) -> dict[str, Any]:
    """The table [models.NAME], with an absolute path of its key file. Raises `ConfigInvalid`."""
    key = f"{MODELS}.{name}"
    try:
        agent_name(name, what="model")
    except InvalidName as error:
        raise wrong(file, key, name, f"{error}. {error.hint}") from error
    if name == OFFLINE:
        raise wrong(file, key, name, "practice is the offline model; choose another name")
    if not isinstance(table, Mapping):
        raise wrong(file, key, table, f"it must be a table, [{key}]")
    if not isinstance(table.get("name"), str):
        what = "is missing" if "name" not in table else "must be a text"
        fix = 'write the vendor and the model, as in "openai:gpt-5.2"'
        raise ConfigInvalid(f"{file}: {key}.name {what}; {fix}", file=str(file), key=key)
    path = table.get("api_key_file")
    return {**table, "api_key_file": str(located(file, path))} if isinstance(path, str) and path else dict(table)


def check_inheritable(file: Path, table: Table) -> None:
    """Raises `ConfigInvalid` for a table of [defaults] that agents cannot share."""
    if "channels" in table:
        fix = "a bot account serves one agent; move it to [agents.NAME.channels]"
        raise wrong(file, f"{DEFAULTS}.channels", table["channels"], fix)


def check_named_models(file: Path, key: str, model: object, models: Models) -> None:
    """Raises `ConfigInvalid` if a model refers to a table [models.NAME] that does not exist."""
    for place, name in _names(key, model):
        if is_named(name, models) and name not in models:
            near = next(iter(difflib.get_close_matches(name, models, n=1)), "")
            meant = f"did you mean {near}? " if near else ""
            known = ", ".join(sorted(models))
            raise wrong(file, place, name, f"there is no table [{MODELS}.{name}]; {meant}there are: {known}")


def is_named(name: str, models: Models) -> bool:
    """Whether the name is meant to be one of [models]. Without any, the check of the model explains its form."""
    return bool(models) and ":" not in name and name != OFFLINE


def _names(key: str, model: object) -> Iterator[tuple[str, str]]:
    if isinstance(model, str):
        yield key, model
    elif isinstance(model, Mapping):
        if isinstance(model.get("name"), str):
            yield f"{key}.name", model["name"]
        yield from _spare_names(key, model)


def _spare_names(key: str, model: Table) -> Iterator[tuple[str, str]]:
    fallbacks = model.get("fallbacks")
    if isinstance(fallbacks, list):
        yield from ((f"{key}.fallbacks[{n}]", one) for n, one in enumerate(fallbacks) if isinstance(one, str))
    if isinstance(model.get("summariser"), str):
        yield f"{key}.summariser", model["summariser"]


def spare_models(model: Table, models: Models) -> dict[str, dict[str, Any]]:
    """The tables of [models] that a model has as fallbacks or as its summariser."""
    return {name: models[name] for _, name in _spare_names("", model) if name in models}


# --- layers ------------------------------------------------------------------------------------------


def merged(name: str, own: Table, defaults: Table, models: Models) -> Layer:
    """The settings of an agent over those that it takes over."""
    below, above = layer(DEFAULTS, defaults, models), layer(f"agents.{name}", own, models)
    if any((key,) in above for key in INSTRUCTIONS):
        below = {steps: one for steps, one in below.items() if steps[0] not in INSTRUCTIONS}
    if (MODEL, "name") in above:
        below = {steps: one for steps, one in below.items() if steps[0] != MODEL}
    talks_to = below.get(("talks_to",))
    if talks_to is not None and isinstance(talks_to.value, list):
        others = [other for other in talks_to.value if other != name]
        below["talks_to",] = Setting(others, talks_to.key)
    removed = {steps for steps in above if _removes(steps, above[steps].value, below)}
    empty = {steps for steps, one in above.items() if one.value == {} and any(_is_in(other, steps) for other in below)}
    kept = {
        steps: one for steps, one in below.items() if not any(_collide(steps, other) for other in above.keys() - empty)
    }
    return kept | {steps: one for steps, one in above.items() if steps not in removed | empty}


def _removes(steps: Steps, value: object, below: Layer) -> bool:
    return value is False and len(steps) == 2 and steps[0] in REMOVABLE and any(_is_in(other, steps) for other in below)


def _is_in(steps: Steps, table: Steps) -> bool:
    return steps[: len(table)] == table


def _collide(steps: Steps, own: Steps) -> bool:
    return _is_in(steps, own) or _is_in(own, steps)


def layer(key: str, table: Table, models: Models) -> Layer:
    """The settings of a table, its model with the settings of the table [models.NAME] that it names."""
    found = _flat((), {name: value for name, value in table.items() if name != MODEL}, key)
    model = table.get(MODEL)
    if isinstance(model, str):
        known = models.get(model)
        if known is None:
            return found | {(MODEL, "name"): Setting(model, f"{key}.{MODEL}")}
        return found | _flat((MODEL,), known, f"{MODELS}.{model}")
    if isinstance(model, Mapping):
        named = model.get("name")
        if isinstance(named, str) and named in models:
            found |= _flat((MODEL,), models[named], f"{MODELS}.{named}")
            model = {name: value for name, value in model.items() if name != "name"}
        return found | _flat((MODEL,), model, f"{key}.{MODEL}")
    return found if model is None else found | {(MODEL,): Setting(model, f"{key}.{MODEL}")}


def _flat(steps: Steps, table: Table, key: str) -> Layer:
    found: Layer = {}
    for name, value in table.items():
        inner, place = (*steps, name), f"{key}.{name}"
        found |= _flat(inner, value, place) if isinstance(value, Mapping) and value else {inner: Setting(value, place)}
    return found


def table_of(settings: Layer) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for steps, one in settings.items():
        inner = made
        for step in steps[:-1]:
            inner = inner.setdefault(step, {})
        inner[steps[-1]] = one.value
    return made


def origins_of(key: str, settings: Layer) -> dict[str, str]:
    """The keys of the settings of the table `key` that are written elsewhere, and of the tables that hold only such."""
    found: dict[str, set[str]] = {}
    for steps, one in settings.items():
        for n in range(1, len(steps) + 1):
            rest = "".join(f".{step}" for step in steps[n:])
            source = one.key.removesuffix(rest) if one.key.endswith(rest) else ""
            found.setdefault(".".join((key, *steps[:n])), set()).add(source)
    return {place: source for place, sources in found.items() for source in sources if _is_one(place, source, sources)}


def _is_one(place: str, source: str, sources: set[str]) -> bool:
    return len(sources) == 1 and source not in ("", place)
