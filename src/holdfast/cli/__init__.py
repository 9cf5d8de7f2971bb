"""The command line. Importing this costs nothing; `main` loads the commands, and each command what it needs."""

import sys


def main() -> None:
    from holdfast.cli.streams import prepare

    prepare()
    from holdfast.cli.running import check_arguments

    check_arguments(sys.argv[1:])
    from holdfast.cli.commands import app

    app(prog_name="holdfast")
