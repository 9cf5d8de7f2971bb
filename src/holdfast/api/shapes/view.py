"""Views: functions that turn a value of the runtime into its JSON shape.

A field of the shape is the attribute of the same name, unless the view names another attribute or a function. An enum
is shown as its value, a tuple as a list.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, structs

S = TypeVar("S", bound=Struct)
T = TypeVar("T")
Source: TypeAlias = str | Callable[[Any], object]  # an attribute, such as `by.label`, or a function of the value


class Shape(Struct, frozen=True, kw_only=True):
    """Base of the answers."""


def view_of(shape: type[S], /, **sources: Source) -> Callable[[Any], S]:
    """The view of one value. `sources` has the fields that are not attributes of the same name."""
    names = [one.name for one in structs.fields(shape)]
    if unknown := sources.keys() - set(names):
        raise TypeError(f"{shape.__name__} has no field {min(unknown)}")
    given = {name: sources.get(name, name) for name in names}
    getters = {name: attrgetter(source) if isinstance(source, str) else source for name, source in given.items()}

    def view(value: object) -> S:
        return shape(**{name: _plain(get(value)) for name, get in getters.items()})

    return view


def list_of(shape: type[S], view: Callable[[T], object]) -> Callable[[Iterable[T]], S]:
    """The view of several values, in a shape whose only field is their list."""
    (field,) = structs.fields(shape)

    def views(found: Iterable[T]) -> S:
        return shape(**{field.name: [view(one) for one in found]})

    return views


def page_of(shape: type[S], view: Callable[[T], object]) -> Callable[[Sequence[T], int], S]:
    """The view of a page of at most `limit` values, in a shape of their list and `next`.

    `next` is the number `n` of the last value if the page is full; there may be more.
    """
    field = structs.fields(shape)[0]

    def page(found: Sequence[Any], limit: int) -> S:
        following = found[-1].n if found and len(found) == limit else None
        return shape(**{field.name: [view(one) for one in found], "next": following})

    return page


def optional(name: str, view: Callable[[Any], object]) -> Source:
    """The view of an attribute that may be None."""
    return lambda value: None if getattr(value, name) is None else view(getattr(value, name))


def each(name: str, view: Callable[[Any], object]) -> Source:
    """The views of the values in an attribute."""
    return lambda value: [view(one) for one in getattr(value, name)]


def or_none(name: str) -> Source:
    """An attribute, or null if it is empty."""
    return lambda value: getattr(value, name) or None


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
