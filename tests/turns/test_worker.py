"""A fault at one mailbox, or at the next message, keeps neither other mailboxes nor an answer waiting."""

from holdfast.inbox.mailbox import Claim, Mail
from holdfast.turns.mailbox_processor import MailboxProcessor
from holdfast.turns.turn import TurnOpening
from tests.support.fakes import Gate, Process, ScriptedModel, agents, says, soon, stands_at, states


def breaks_at(monkeypatch, text: str) -> list[str]:
    """Planning fails for one message inside the transaction; the chats at which it failed."""
    honest, failed = MailboxProcessor.opening, []

    def opening(self: MailboxProcessor, claim: Claim, mail: Mail) -> TurnOpening | None:
        if any(item.text == text for item in mail.waiting):
            failed.append(claim.address)
            raise RuntimeError("a bug")
        return honest(self, claim, mail)

    monkeypatch.setattr(MailboxProcessor, "opening", opening)
    return failed


async def test_a_mailbox_whose_turn_cannot_be_planned_keeps_no_other_one_waiting(tmp_path, monkeypatch):
    async with await Process.start(tmp_path, agents(ScriptedModel())) as runtime:
        failed = breaks_at(monkeypatch, "odd")
        odd = await runtime.send("a", "odd")
        sent = [await runtime.send(chat, "hello") for chat in ("b", "c")]
        assert await states(runtime, odd, *sent) == ["answered"] * 3
        assert failed, "the first attempt claimed and planned together"


async def test_an_answer_is_committed_though_the_next_message_cannot_be_planned(tmp_path, monkeypatch):
    gate, model = Gate(), ScriptedModel()
    model.otherwise = stands_at(gate, says("done"))
    async with await Process.start(tmp_path, agents(model)) as runtime:
        first = await runtime.send("a", "hello")
        await soon(gate.arrival())
        failed = breaks_at(monkeypatch, "odd")
        odd = await runtime.send("a", "odd")
        gate.open()
        assert await states(runtime, first, odd) == ["answered"] * 2
        assert failed
        assert (await runtime.trace(first)).attempt == 1, "it was answered by its first attempt"
