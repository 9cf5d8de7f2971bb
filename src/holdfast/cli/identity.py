"""`holdfast link`, `unlink`, `links` and `move`: linked accounts, and addresses of conversations."""

from typing import Annotated

import typer

from holdfast.api.shapes.access import UnlinkedOut, link_view, links_view, moved_view
from holdfast.cli.command import Runtime, visitor
from holdfast.cli.output import Output, TextTable, when

BY = "the command line"
Account = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="An account, such as telegram:123456789.")]


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
    return Output(link_view(made), f"{made.principal} is now linked to {made.person}. {undo}")


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
    view = UnlinkedOut(principal=principal, link=None if gone is None else link_view(gone))
    return Output(view, f"{principal} {done}.")


@visitor()
async def links(runtime: Runtime) -> Output:
    """List linked accounts.

    \b
    Examples:
      holdfast links --json
    """
    found = await runtime.access.links()
    rows = ((one.person, one.principal, when(one.at)) for one in found)
    return Output(links_view(found), TextTable(("person", "principal", "since"), rows))


def _question(old: str, new: str) -> str:
    return f"Permanently connect {new[:200]} to the conversation of {old[:200]}?"


@visitor(act="address.moved", on="new", confirm=_question)
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
    return Output(moved_view(moved), f"{new} {already}leads to the conversation of {old}.")
