"""The command line. Importing this costs nothing; `main` loads the commands, and each command what it needs."""


def main() -> None:
    from holdfast.cli.streams import prepare

    prepare()
    from holdfast.cli.commands import app

    app(prog_name="holdfast")
