"""Collects every error of a configuration: a wrong setting is reported, taken out, and the rest is read on.

So one mistake is one error, and an error never hides the next one.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from holdfast.kernel.errors import AllowlistNotImmutable, ConfigInvalid, HoldfastError

T = TypeVar("T")
Table = Mapping[str, Any]
_ITEM = re.compile(r"(?P<name>.*)\[(?P<n>\d+)\]\Z", re.DOTALL)


def together(problems: list[HoldfastError]) -> HoldfastError:
    """The first error, which carries the others."""
    first, *others = problems
    first.others = tuple(others)
    return first


def mended(table: Table, key: str, read: Callable[[Table], T], problems: list[HoldfastError]) -> tuple[T | None, Table]:
    """What `read` makes of the table called `key`, and the table without its wrong settings.

    The result is None if an error names no setting of the table that could be taken out.
    """
    while True:
        try:
            return read(table), table
        except (ConfigInvalid, AllowlistNotImmutable) as error:
            problems.append(error)
            named = str(error.context.get("key", ""))
            inner = named.removeprefix(f"{key}.") if named.startswith(f"{key}.") else ""
            rest = without(table, inner, error.context.get("entry"))
            if rest is None:
                return None, table
            table = rest


def without(table: Table, key: str, entry: object = None) -> Table | None:
    """The table without a setting, or without one entry of it; None if it has no such setting."""
    if key in table:
        if isinstance(entry, str) and isinstance(table[key], list) and entry in table[key]:
            return {**table, key: [one for one in table[key] if one != entry]}
        return {name: value for name, value in table.items() if name != key}
    item = _ITEM.fullmatch(key)
    if item is not None and isinstance(table.get(item["name"]), list):
        kept = [value for n, value in enumerate(table[item["name"]]) if n != int(item["n"])]
        return {**table, item["name"]: kept}
    for name, value in table.items():  # a name may contain dots
        if isinstance(value, Mapping) and key.startswith(f"{name}."):
            rest = without(value, key.removeprefix(f"{name}."), entry)
            if rest is not None:
                return {**table, name: rest}
    return None
