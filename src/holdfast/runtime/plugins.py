"""Plugins: finds the factory of a provider or a channel by its name in holdfast.toml.

Built-in factories are imported on first use; others are entry points, one group per kind.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from holdfast.kernel.errors import ConfigInvalid


class BuiltIn(NamedTuple):
    module: str
    factory: str
    extra: str = ""  # the package extra that installs its dependencies


def find_factory(what: str, name: str, key: str, built_in: Mapping[str, BuiltIn], group: str) -> Any:  # noqa: ANN401
    """The factory of that name, untyped; the caller knows its type. Raises `ConfigInvalid`, which names the key."""
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
