"""`holdfast version`: the versions of Holdfast and its libraries."""

import platform

import apsw

import holdfast
from holdfast.cli.command import Json
from holdfast.cli.output import Output, facts
from holdfast.store.encryption.databases import library_in_use


def version(as_json: Json = False) -> None:
    """Show the versions of Holdfast and its libraries.

    \b
    Examples:
      holdfast version --json
    """
    found = {
        "holdfast": holdfast.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "library": library_in_use(),
        "system": platform.platform(),
    }
    Output(found, facts(found)).print(as_json=as_json)
