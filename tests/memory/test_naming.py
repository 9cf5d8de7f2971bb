"""A place is one per session or one per chat, and no writer is left without one."""

from holdfast.kernel.ids import AgentName, Principal, SessionId
from holdfast.memory.naming import NamingInputs, PerAddress, PerSession

HERE = "agent:main:telegram:dm:7"


def inputs(session: str, address: str) -> NamingInputs:
    return NamingInputs(
        agent=AgentName("main"), session=SessionId(session), principal=Principal("ada"), address=address
    )


def test_a_chat_keeps_its_place_in_every_session():
    assert PerAddress().place(inputs("ses_1", HERE)) == PerAddress().place(inputs("ses_2", HERE)) == HERE


def test_a_writer_without_a_chat_has_a_place_per_session():
    assert PerAddress().place(inputs("ses_1", "")) == "ses_1"


def test_a_session_has_its_own_place_in_any_chat():
    assert PerSession().place(inputs("ses_1", HERE)) == PerSession().place(inputs("ses_1", "")) == "ses_1"
