"""What a mutant is: a guarantee, broken on purpose.

Rule 1: a mutant is a patch of the product at run time, put on for one history and taken off again. There is no
        branch for it anywhere in the product.
Rule 2: each names the invariants that it breaks; it counts as killed when one of those is reported, not when
        anything is.
Rule 3: each has a budget of histories within which it must die. One that lives longer is a hole in the checkers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from holdfast.store.script import Call, Verb
from holdfast.testing.areas import Area
from holdfast.testing.channel_areas import ChannelArea

Patch: TypeAlias = tuple[Any, str, Any]  # of what, which name, the replacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    breaks: frozenset[str]
    what: str
    budget: int
    patches: Callable[[], Sequence[Patch]]
    twice: bool = False  # seen only by living through the same history twice
    forgets: bool = False  # seen only in histories in which somebody is forgotten
    posts: bool = False  # seen only in histories in which replies are posted
    area: Area | ChannelArea | None = None  # seen only in histories that have it
    first: int | None = None  # a seed that is known to show it, lived through before all others

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, broken in self.patches():
                stack.enter_context(_patched(target, name, broken))
            yield


@contextmanager
def _patched(target: Any, name: str, broken: Any) -> Iterator[None]:  # noqa: ANN401
    """Put the replacement in place. A verb is imported by its callers, so its script is replaced inside of it."""
    verb = getattr(target, name)
    if isinstance(verb, Verb):
        target, name = verb, "script"
    original = getattr(target, name)
    setattr(target, name, broken)
    try:
        yield
    finally:
        setattr(target, name, original)


MUTANTS: dict[str, Mutant] = {}


def mutant(
    *breaks: str,
    budget: int,
    twice: bool = False,
    forgets: bool = False,
    posts: bool = False,
    area: Area | ChannelArea | None = None,
    first: int | None = None,
) -> Callable[[Callable[[], Sequence[Patch]]], Callable[[], Sequence[Patch]]]:
    """Put a function that makes patches into the table, under its own name."""

    def add(patches: Callable[[], Sequence[Patch]]) -> Callable[[], Sequence[Patch]]:
        name = patches.__name__
        what = " ".join((patches.__doc__ or "").split())
        MUTANTS[name] = Mutant(
            name=name,
            breaks=frozenset(breaks),
            what=what,
            budget=budget,
            patches=patches,
            twice=twice,
            forgets=forgets,
            posts=posts,
            area=area,
            first=first,
        )
        return patches

    return add


def arguments(call: Call[Any]) -> tuple[Any, ...]:
    """The positional arguments that a verb was called with."""
    return tuple(call.script.args) if isinstance(call.script, partial) else ()
