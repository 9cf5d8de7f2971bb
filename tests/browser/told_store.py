"""A data folder with a past: sessions in which everything happened, told to a store with a clock of its own."""

import time
from pathlib import Path

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.inbox.access import PairingAsk, PairingDecision
from holdfast.inbox.access_sql import ask_pairing, decide_pairing
from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals
from holdfast.kernel.ids import (
    AgentName,
    Instant,
    MailboxId,
    OperationId,
    Principal,
    Provider,
    ReplyId,
    TokenId,
)
from holdfast.memory.delivery import DeliveryPolicy, PerAddress
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.notes_sql import apply_memory
from holdfast.runtime.app import DATABASE
from holdfast.store.node_sql import register_node
from holdfast.testing import ManualClock
from holdfast.turns.policy import AgentPolicy, ExpiryPolicy
from holdfast.turns.spend_sql import Spend, record_spend
from tests.monitor import stories
from tests.support.driver import Driver
from tests.support.engines import open_engine

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
HOSTILE = "<script>window.hit=1</script> & 'quotes' \"too\""
FERN = AgentPolicy(daily_spend_micros=250_000, expiry=ExpiryPolicy(idle_minutes=24 * 60))
LISTED = {"fern": FERN, "moss": AgentPolicy()}


async def tell(data: Path) -> None:
    """Write the store of a data folder."""
    make_folder(data)
    clock = ManualClock(Instant(int(time.time() * 1_000) - 10 * DAY_MS))
    async with open_engine("threaded", data, clock) as db:
        driver = Driver(db, clock)
        await db.write(register_node(driver.node, "here", sole=False))
        await spend(driver)
        story = stories.Story(driver)
        for told in (stories.answered_over_http, stories.parked_at_one_provider, stories.approved):
            await told(story)
            clock.advance(40_000)
        await driver.command("/title Refunds, week 47")
        driver.policies = ()
        for n in range(14):
            await driver.talk(f"And order B-1{n:03}?", "It left yesterday.")
            clock.advance(90_000)
        await driver.talk("hello", chat="den", who="bob")
        await driver.command(f"/title {HOSTILE}", chat="den", who="bob")
        await driver.command("/branch half the refund?")
        driver.policies = tuple(
            DeliveryPolicy(provider=Provider(name), naming=PerAddress()) for name in ("local", "honcho")
        )
        clock.advance(20_000)
        await driver.talk("Please refund it in full.", who="mara")
        await stories.resumed_after_a_kill(story)
        await notes(driver)
        await driver.talk("hello", chat="lab", who="eve")
        await driver.command("/new", chat="lab", who="eve")
        await people(driver)
    rename_store(data)


def make_folder(data: Path) -> None:
    data.mkdir(parents=True, mode=0o700)


def rename_store(data: Path) -> None:
    """The name that a serving process looks for."""
    for path in data.glob("store.db*"):
        path.rename(data / path.name.replace("store.db", DATABASE))


async def people(driver: Driver) -> None:
    """A stranger who asks to be let in, one who was, a person with two accounts, and two tokens."""
    for code, number, name in (("7K2MPQ9X", 7, HOSTILE), ("8K2MPQ9X", 8, "Mara Lindt")):
        asked = PairingAsk(
            agent=AgentName("fern"),
            channel="telegram",
            principal=Principal(f"telegram:{number}"),
            address=f"agent:fern:telegram:dm:{number}",
            code=code,
            reply=ReplyId(driver.id("rep")),
            new_mailbox=MailboxId(driver.id("box")),
            name=name,
        )
        await driver.db.write(ask_pairing(asked))
    operation, reply = OperationId(driver.id("op")), ReplyId(driver.id("rep"))
    decision = PairingDecision(code="8K2MPQ9X", admit=True, by="operator", operation=operation, reply=reply)
    await driver.db.write(decide_pairing(decision))
    request = LinkRequest(
        principal=Principal("telegram:8"),
        person=Principal("ada"),
        by="operator",
        operation=OperationId(driver.id("op")),
    )
    await driver.db.write(link_principals(request))
    for n, (label, scopes, binding) in enumerate(
        (("the bridge of the shop", {Scope.SEND}, Binding(sender="shop")), ("read only", {Scope.READ}, Binding()))
    ):
        token = AccessToken(id=TokenId(f"tok_{n}"), label=label, scopes=frozenset(scopes), binding=binding)
        await driver.db.write(add_token(token, hash_token(spell_token(n))))


async def notes(driver: Driver) -> None:
    async def write(subject: str, *changes: NoteChange, by: str = "model", who: Principal = Principal("ada")) -> None:
        batch = MemoryBatch(
            agent=AgentName("fern"), subject=subject, origin=driver.id("origin"), changes=changes, by=by, principal=who
        )
        await driver.db.write(apply_memory(batch))
        driver.clock.advance(60_000)

    add, replace = MemoryVerb.ADD, MemoryVerb.REPLACE
    await write(
        "", NoteChange(verb=add, target=Target.MEMORY, text="Refunds above 50 need a second pair of eyes."), by="user"
    )
    await write("ada", NoteChange(verb=add, target=Target.USER, text="Ada prefers short answers in the morning."))
    await write("ada", NoteChange(verb=add, target=Target.MEMORY, text=HOSTILE))
    change = NoteChange(
        verb=replace, target=Target.USER, old="short answers", text="Ada prefers long answers in the evening."
    )
    await write("ada", change)
    await write("ada", NoteChange(verb=MemoryVerb.REMOVE, target=Target.MEMORY, old="quotes"), by="user")


async def spend(driver: Driver) -> None:
    """Nine days of costs; the clock is six hours before the present afterwards."""
    billed = (("fern", "claude-sonnet-5", 31_000), ("fern", "gpt-5-mini", 4_000), ("moss", "claude-sonnet-5", 12_500))
    for day in range(10):
        for agent, model, cost in billed:
            paid = Spend(
                id=driver.id("spd"),
                agent=AgentName(agent),
                task="reply",
                model=model,
                tokens_in=1_000,
                tokens_out=90,
                cost_micros=cost * (1 + (day * 7 + len(model)) % 5),
            )
            await driver.db.write(record_spend(paid))
        driver.clock.advance(DAY_MS if day < 9 else DAY_MS - 6 * HOUR_MS)
