"""Asking before what cannot be taken back: forgetting, revoking a token, moving an address.

Rule: a command asks when no other command undoes it, and only then. Where nobody can be asked, it is refused without
`--yes`: a script that means it says so.
"""

from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def ask(question: str, *, yes: bool, as_json: bool) -> None:
    """Go on with `--yes`, or with a yes from a terminal. Leaves with 1 at a no, with 2 where nobody can be asked."""
    if yes:
        return
    if _can_ask():
        typer.confirm(question, abort=True, err=True)
        return
    from holdfast.cli.output import print_error
    from holdfast.cli.running import USAGE
    from holdfast.kernel.errors import ConfirmationRequired

    print_error(ConfirmationRequired(f"nobody can be asked here: {question}"), as_json=as_json)
    raise typer.Exit(USAGE)


def _can_ask() -> bool:
    import sys

    return sys.stdin.isatty()
