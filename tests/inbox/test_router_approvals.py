"""In a group a decision counts as addressed to the agent if it names a call that waits in that mailbox, and only then.
Overheard messages are still kept as the policy says.
"""

import pytest

from holdfast.inbox.channel import IntakeOutcome
from holdfast.inbox.chat_message import MessageChange
from holdfast.turns.policy import GroupPolicy, Sharing
from tests.inbox.test_router import Chat, wrote
from tests.support.approving import Till, asked_in, start
from tests.support.fakes import soon

GROUP = {"chat": "-9", "chat_type": "group"}
CASES = [
    pytest.param(GroupPolicy(), IntakeOutcome.TAKEN, id="shared"),
    pytest.param(GroupPolicy(observe=False), IntakeOutcome.IGNORED, id="overhearing nothing"),
    pytest.param(GroupPolicy(groups=Sharing.PER_USER), IntakeOutcome.TAKEN, id="a session for each"),
]


@pytest.mark.parametrize(("groups", "overheard"), CASES)
async def test_an_unaddressed_decision_that_names_an_open_approval_decides_it(tmp_path, groups, overheard):
    chat, till, count = Chat(), Till(), iter(range(20, 99))

    async def said(text, **more):
        return await chat.intake.receive(
            wrote(text, **{**GROUP, "addressed": False, "event_id": str(next(count)), **more})
        )

    async with await start(tmp_path, "telegram", chat, till, groups=groups):
        await soon(chat.running.wait())
        await said("pay him", addressed=True)
        approval = asked_in(await chat.texts(1))
        for text in ("/approve ZZZZZZ", "/approve", "/status", "/stop", f"I say /approve {approval}"):
            assert await said(text) is overheard
        assert await said(f"/approve {approval}", chat="-8") is overheard, "another chat"
        edit = {"change": MessageChange.EDITED, "of": "20"}
        await said(f"/approve {approval}", **edit)
        assert (len(chat.sent), till.paid) == (1, [])
        assert await said(f" /approve {approval}") is IntakeOutcome.TAKEN
        assert (await chat.texts(3))[1:] == [f"Approved: pay ({approval}) runs once.", "all done"]
        assert await said(f"/approve {approval}") is overheard, "it waits no longer"
    assert (len(chat.sent), till.paid) == (3, [3])
