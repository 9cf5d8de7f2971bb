"""Plugins: what makes a provider or a channel, found by its name in holdfast.toml.

The built-in ones are imported when they are first needed; others are entry points, under a group of their own.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from holdfast.kernel.errors import ConfigInvalid


class BuiltIn(NamedTuple):
    module: str
    factory: str
    extra: str = ""  # the extra that brings what it needs


def find_factory(what: str, name: str, key: str, built_in: Mapping[str, BuiltIn], group: str) -> Any:  # noqa: ANN401
    """The factory of that name; whoever asks knows its type. Raises `ConfigInvalid`, naming the key."""
    if name in built_in:
        return _built_in(built_in[name], key)
    found = {point.name: point for point in entry_points(group=group)}
    if name not in found:
        known = ", ".join(sorted({*built_in, *found}))
        raise ConfigInvalid(f"{key}: there is no {what} {name!r}; known are {known}", key=key)
    try:
        return found[name].load()
    except (ImportError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigInvalid(f"{key}: {found[name].value} cannot be loaded ({why})", key=key) from error


def _built_in(one: BuiltIn, key: str) -> Any:  # noqa: ANN401
    try:
        return getattr(import_module(one.module), one.factory)
    except ModuleNotFoundError as error:
        if not one.extra or (error.name or "").startswith("holdfast"):
            raise
        raise ConfigInvalid(f"{key} needs the extra: pip install 'holdfast[{one.extra}]'", key=key) from error
