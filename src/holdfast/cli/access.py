"""`holdfast pair`, `pairs`, `unpair`: access requests. `link`, `unlink`, `links`, `move`: accounts and addresses."""

from typing import Annotated

import typer

from holdfast.api.shapes import administration as shapes
from holdfast.cli.command import Invocation, OnlyAgent, Runtime, command, visitor
from holdfast.cli.output import Output, TextTable, when
from holdfast.inbox.access import spelt
from holdfast.inbox.access_sql import is_admitted
from holdfast.kernel.ids import AgentName, Principal

BY = "the command line"
CONNECT = "Permanently connect {new:.200} to the conversation of {old:.200}?"
Account = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="An account, such as telegram:123456789.")]


@command()
async def pair(
    invocation: Invocation,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code that the sender received.")],
    deny: Annotated[bool, typer.Option("--deny", help="Deny the request, permanently and without a notice.")] = False,
) -> Output:
    """Grant or deny an access request.

    The sender is notified that access was granted. Messages they sent before were not stored. A code is valid for one
    day.

    \b
    Examples:
      holdfast pair 7K2M-PQ9X
      holdfast pair 7K2M-PQ9X --deny
    """
    admit = not deny
    async with invocation.visiting(act="access.admitted" if admit else "access.denied", on=code) as runtime:
        found = await runtime.access.pair(code, admit=admit, by=BY)
    done = "may now talk to" if admit else "is denied access to"
    return Output(shapes.pair_view(found), f"{found.principal} {done} {found.agent}.")


@visitor(times=True)
async def pairs(runtime: Runtime, agent: OnlyAgent = None) -> Output:
    """List access requests, newest first.

    The name is chosen by the sender and proves nothing; the principal identifies the account.

    \b
    Examples:
      holdfast pairs
      holdfast pairs --agent main --json
    """
    found = await runtime.access.pairs(agent=agent)
    rows = (
        (spelt(one.code), one.agent, one.principal, one.name, one.state.value, when(one.asked_at), when(one.decided_at))
        for one in found
    )
    headings = ("code", "agent", "principal", "shown as", "state", "asked", "decided")
    return Output(shapes.pairs_view(found), TextTable(headings, rows))


@visitor(act="access.withdrawn", on="principal")
async def unpair(
    runtime: Runtime,
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="The account, such as telegram:123456789.")],
    agent: OnlyAgent = None,
) -> Output:
    """Revoke a sender's access.

    The sender may request access again. Allowlists in holdfast.toml are not changed.

    \b
    Examples:
      holdfast unpair telegram:123456789
    """
    gone = await runtime.access.unpair(principal, agent=agent, by=BY)
    asked = [agent] if agent is not None else gone or runtime.agents()
    still = [one for one in asked if await runtime.db.read(is_admitted(AgentName(one), Principal(principal)))]
    revoked = f"The access of {principal} to {', '.join(gone)} is revoked."
    text = [revoked if gone else f"{principal} was not paired; nothing changed."]
    if still:
        text.append(f"It still has access to {', '.join(still)} through a linked account: see `holdfast links`.")
    return Output(shapes.UnpairedOut(principal=principal, agents=list(gone)), *text)


@visitor(config=True, act="identity.linked", on="principal")
async def link(
    runtime: Runtime,
    principal: Account,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Another account of the same person, or a name.")],
) -> Output:
    """Link an account to a person.

    From now on, messages of the account belong to the person, who can reach past conversations from any linked account:
    /resume, memory and `holdfast forget` apply to the person. Other people see nothing new. An account is written
    <channel>:<id>; a person may have a plain name.

    \b
    Examples:
      holdfast link discord:80351110224678912 telegram:123456789
      holdfast link telegram:123456789 ada
    """
    made = await runtime.access.link(principal, person, by=BY)
    undo = f"`holdfast unlink {made.principal}` removes the link."
    return Output(made, f"{made.principal} is now linked to {made.person}. {undo}")


@visitor(act="identity.unlinked", on="principal")
async def unlink(runtime: Runtime, principal: Account) -> Output:
    """Remove the link of an account.

    Messages from the time of the link still belong to the person; new messages belong to the account alone.

    \b
    Examples:
      holdfast unlink discord:80351110224678912
    """
    gone = await runtime.access.unlink(principal, by=BY)
    done = "was not linked; nothing changed" if gone is None else f"is no longer linked to {gone.person}"
    view = shapes.UnlinkedOut(principal=principal, link=gone)
    return Output(view, f"{principal} {done}.")


@visitor(times=True)
async def links(runtime: Runtime) -> Output:
    """List linked accounts.

    \b
    Examples:
      holdfast links --json
    """
    found = await runtime.access.links()
    rows = ((one.person, one.principal, when(one.at)) for one in found)
    return Output(shapes.LinksOut(links=list(found)), TextTable(("person", "principal", "since"), rows))


@visitor(act="address.moved", on="new", confirm=CONNECT.format)
async def move(
    runtime: Runtime,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The address of the existing conversation.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new address of the conversation.")],
) -> Output:
    """Give a conversation a new address.

    Use it if a chat received another id. It is refused if the new address already has messages. Chats that Telegram
    migrates are moved automatically.

    \b
    Examples:
      holdfast move agent:main:telegram:group:-100 agent:main:telegram:group:-1001234567890
      holdfast move agent:main:http:dm:old agent:main:http:dm:new --yes
    """
    moved = await runtime.access.move(old, new, by=BY)
    already = "" if moved.aliases else "already "
    return Output(moved, f"{new} {already}leads to the conversation of {old}.")
