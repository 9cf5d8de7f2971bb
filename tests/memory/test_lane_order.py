"""Notes that have no text in common may arrive in any order; nothing else may."""

import pytest

from holdfast.kernel.ids import AgentName, DeliveryId, Principal, Provider, SessionId
from holdfast.memory.delivery import MemoryNote, NamingInputs, Op, Parcel
from holdfast.memory.lane import may_pass

NAMING = NamingInputs(agent=AgentName("fern"), session=SessionId("s"), principal=Principal("ada"))


def parcel(op=Op.REMEMBER, text="", old_text=""):
    note = MemoryNote(seq=1, target="memory", op="add", text=text, old_text=old_text) if text or old_text else None
    return Parcel(id=DeliveryId("d"), op=op, provider=Provider("mem"), place="p", naming=NAMING, attempt=1, note=note)


@pytest.mark.parametrize(
    ("one", "waiting", "passes"),
    [
        (parcel(text="tea"), [], True),
        (parcel(text="tea"), [parcel(text="milk")], True),
        (parcel(text="tea"), [parcel(text="milk"), parcel(text=" tea ")], False),
        (parcel(text="tea"), [parcel(old_text="tea", text="coffee")], False),
        (parcel(old_text="milk"), [parcel(text="milk")], False),
        (parcel(Op.RETAIN), [parcel(text="tea")], False),
        (parcel(text="tea"), [parcel(Op.RETAIN)], False),
        (parcel(text="tea"), [parcel(text="milk"), parcel(Op.RETRACT)], False),
    ],
)
def test_a_note_overtakes_only_what_it_has_no_text_in_common_with(one, waiting, passes):
    assert may_pass(one, waiting) is passes
