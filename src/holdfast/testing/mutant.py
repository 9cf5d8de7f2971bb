"""A mutant: a guarantee, broken on purpose.

Rule 1: a mutant is a patch of the product at run time, applied for one history and removed again. The product has no
        branch for it.
Rule 2: each names the invariants that it breaks; it counts as killed when one of those is reported, not when
        any other is.
Rule 3: each has a budget of histories within which it must be killed. A mutant that survives shows a missing check.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from holdfast.store.script import Call, Verb
from holdfast.testing.areas import Area
from holdfast.testing.channel_areas import ChannelArea

RARE_BUDGET = 6_000  # histories for a mutant that few histories show
RARE_FROM = 20_000  # a campaign of this many histories also tries these mutants
Patch: TypeAlias = tuple[Any, str, Any]  # target, name, replacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    breaks: frozenset[str]
    what: str
    budget: int
    patches: Callable[[], Sequence[Patch]]
    twice: bool = False  # detected only by running the same history twice
    forgets: bool = False  # detected only in histories in which a person is forgotten
    posts: bool = False  # detected only in histories in which replies are posted
    area: Area | ChannelArea | None = None  # detected only in histories that have it
    rare: str = ""  # for one that too few histories show for the suite: the test that shows it there
    # Seeds that detect it, run before all others; tools/mutant_seeds.py finds them.
    short: int | None = None  # one whose shortened history is enough
    first: int | None = None  # one whose whole history is needed

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, broken in self.patches():
                stack.enter_context(_patched(target, name, broken))
            yield


@contextmanager
def _patched(target: Any, name: str, broken: Any) -> Iterator[None]:  # noqa: ANN401
    """Apply the replacement. Callers import a verb by name, so its script is replaced inside the verb."""
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
    short: int | None = None,
    first: int | None = None,
    rare: str = "",
) -> Callable[[Callable[[], Sequence[Patch]]], Callable[[], Sequence[Patch]]]:
    """Register a function that returns patches, under its own name."""

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
            short=short,
            first=first,
            rare=rare,
        )
        return patches

    return add


def arguments(call: Call[Any]) -> tuple[Any, ...]:
    """The positional arguments that a verb was called with."""
    return tuple(call.script.args) if isinstance(call.script, partial) else ()
