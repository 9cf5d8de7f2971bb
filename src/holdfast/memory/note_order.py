"""The order of notes: which notes may overtake a note whose outcome is unknown.

A provider identifies a note by its text. Two notes without a common text have the same result in either order; a note
that replaces, removes or repeats the text of another depends on it. Turns never overtake: their order is visible to
people.
"""

from collections.abc import Iterable

from holdfast.memory.delivery import Op, Parcel


def may_pass(parcel: Parcel, waiting: Iterable[Parcel]) -> bool:
    """Whether a parcel may be sent before the earlier parcels in `waiting`."""
    texts = _texts(parcel)
    return all(texts and (before := _texts(one)) and not texts & before for one in waiting)


def _texts(parcel: Parcel) -> set[str]:
    """The texts that a note writes and removes; empty for other parcels."""
    if parcel.op is not Op.REMEMBER or parcel.note is None:
        return set()
    return {text for text in (parcel.note.text.strip(), parcel.note.old_text.strip()) if text}
