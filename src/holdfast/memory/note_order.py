"""Which notes may overtake one whose fate is unknown.

A note is known at a provider by its text. Two notes without a text in common leave the same memory in either order; a
note that replaces, removes or repeats the text of another depends on it. Turns never overtake anything: people see
their order.
"""

from collections.abc import Iterable

from holdfast.memory.delivery import Op, Parcel


def may_pass(parcel: Parcel, waiting: Iterable[Parcel]) -> bool:
    """Whether a parcel may be sent before the waiting ones that stand before it."""
    texts = _texts(parcel)
    return all(texts and (before := _texts(one)) and not texts & before for one in waiting)


def _texts(parcel: Parcel) -> set[str]:
    """What a note writes and what it takes away; empty for anything that is no note."""
    if parcel.op is not Op.REMEMBER or parcel.note is None:
        return set()
    return {text for text in (parcel.note.text.strip(), parcel.note.old_text.strip()) if text}
