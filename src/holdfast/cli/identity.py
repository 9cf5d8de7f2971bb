"""`holdfast link`, `unlink`, `links`, `move`: who is whom, and which address leads where. Every act is on record."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.asking import Yes, ask
from holdfast.cli.options import Config, Data, Json

BY = "the command line"
Who = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="An account, as in telegram:123456789.")]


def link(
    principal: Who,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Another account of the same person, or a name.")],
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say that an account is a person's.

    From now on what the account says is the person's, and the person finds what was said before with any of their
    accounts: /resume, memory and `holdfast forget` follow the person. Others see nothing new. An account is written
    <channel>:<id>; a person may have a plain name.

    \b
    Examples:
      holdfast link discord:80351110224678912 telegram:123456789
      holdfast link telegram:123456789 ada
    """
    from holdfast.cli.running import run

    run(lambda: _link(principal, person, (data, config), as_json=as_json), as_json=as_json)


def unlink(principal: Who, data: Data = None, as_json: Json = False) -> None:
    """Take a link back.

    What was said while it held stays the person's; the account is its own again.

    \b
    Examples:
      holdfast unlink discord:80351110224678912
    """
    from holdfast.cli.running import run

    run(lambda: _unlink(principal, data, as_json=as_json), as_json=as_json)


def links(data: Data = None, as_json: Json = False) -> None:
    """List which accounts are one person.

    \b
    Examples:
      holdfast links --json
    """
    from holdfast.cli.running import run

    run(lambda: _links(data, as_json=as_json), as_json=as_json)


def move(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The address that has the conversation.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The address that is to lead there too.")],
    *,
    yes: Yes = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Make a new address lead to an older one's conversation.

    For a chat that got another id. Refused when anything was said at the new address already. Chats that Telegram
    migrates move by themselves.

    \b
    Examples:
      holdfast move agent:main:telegram:group:-100 agent:main:telegram:group:-1001234567890
      holdfast move agent:main:http:dm:old agent:main:http:dm:new --yes
    """
    from holdfast.cli.running import run

    ask(f"Let {new[:200]} lead to the conversation of {old[:200]} for good?", yes=yes, as_json=as_json)
    run(lambda: _move(old, new, data, as_json=as_json), as_json=as_json)


async def _link(principal: str, person: str, where: tuple[Path | None, Path | None], *, as_json: bool) -> int:
    from holdfast.api.shapes.access import link_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK

    async with visiting(*where, act="identity.linked", on=principal) as runtime:
        made = await runtime.access.link(principal, person, by=BY)
    if as_json:
        print_json(link_view(made))
        return OK
    print(visible(f"{made.principal} is {made.person} from now on. `holdfast unlink {made.principal}` takes it back."))
    return OK


async def _unlink(principal: str, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.access import UnlinkedOut, link_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK

    async with visiting(data, act="identity.unlinked", on=principal) as runtime:
        gone = await runtime.access.unlink(principal, by=BY)
    if as_json:
        print_json(UnlinkedOut(principal=principal, link=None if gone is None else link_view(gone)))
        return OK
    said = "was not linked; nothing changed" if gone is None else f"is no longer {gone.person}"
    print(visible(f"{principal} {said}."))
    return OK


async def _links(data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.access import links_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, print_table, when
    from holdfast.cli.running import OK

    async with visiting(data) as runtime:
        found = await runtime.access.links()
    if as_json:
        print_json(links_view(found))
        return OK
    print_table(("person", "principal", "since"), [(one.person, one.principal, when(one.at)) for one in found])
    return OK


async def _move(old: str, new: str, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.access import moved_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_json, visible
    from holdfast.cli.running import OK

    async with visiting(data, act="address.moved", on=new) as runtime:
        moved = await runtime.access.move(old, new, by=BY)
    if as_json:
        print_json(moved_view(moved))
        return OK
    print(visible(f"{new} leads to the conversation of {old}{'' if moved.aliases else ' already'}."))
    return OK
