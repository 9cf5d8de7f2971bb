"""The command line. `main` loads the table of commands; a command is imported when it is used."""

import sys


def main() -> None:
    from holdfast.cli.streams import is_text, prepare
    from holdfast.kernel.hardening import harden

    harden()
    prepare()
    for argument in sys.argv[1:]:
        if not is_text(argument):
            from holdfast.cli.running import refuse_argument

            refuse_argument(argument, as_json="--json" in sys.argv)
    from holdfast.cli.commands import app

    app(prog_name="holdfast")
