"""`holdfast context`: what the model would be sent now."""

from pathlib import Path

from holdfast.cli.options import Config, Data, Json, SessionArgument


def context(session: SessionArgument, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Show what the model would be sent.

    Instructions, the newest summary, and everything committed since.

    \b
    Examples:
      holdfast context ses_01k...
      holdfast context ses_01k... --json
    """
    from holdfast.cli.running import run

    run(lambda: _context(session, config, data, as_json=as_json), as_json=as_json)


async def _context(session: str, config: Path | None, data: Path | None, *, as_json: bool) -> int:
    from holdfast.api.shapes.shapes import context_view
    from holdfast.cli.opening import visiting
    from holdfast.cli.output import print_heading, print_json, visible
    from holdfast.cli.running import OK
    from holdfast.inbox.address import check_part
    from holdfast.kernel.ids import SessionId

    async with visiting(data, config) as runtime:
        view = context_view(await runtime.prompt(SessionId(check_part("session", session))))
    if as_json:
        print_json(view)
        return OK
    print_heading(f"about {view.tokens} tokens; the summary covers entries up to {view.covers_through}")
    for message in view.messages:
        print(f"{message.role:<9} {visible(message.content)}")
    return OK
