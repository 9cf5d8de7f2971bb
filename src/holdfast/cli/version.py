"""`holdfast version`, and `holdfast --version`."""

import typer

from holdfast.cli.options import Json


def tell_version(wanted: bool) -> None:
    """`holdfast --version`, which scripts try first."""
    if wanted:
        import holdfast

        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


def version(as_json: Json = False) -> None:
    """Show the versions of Holdfast and of what it runs on.

    \b
    Examples:
      holdfast version --json
    """
    import platform

    import apsw

    import holdfast
    from holdfast.cli.output import print_json
    from holdfast.store.encryption.library import library_in_use

    found = {
        "holdfast": holdfast.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "library": library_in_use(),
        "system": platform.platform(),
    }
    if as_json:
        print_json(found)
    else:
        print("\n".join(f"{name:<9} {value}" for name, value in found.items()))
