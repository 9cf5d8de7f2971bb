"""The steps of the schema, `NNN_*.sql`, written once for both engines."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

from holdfast.kernel.errors import InvariantBroken

_FILE_NAME = re.compile(r"(\d{3})_\w+\.sql")


def read_steps(folder: Traversable | None = None) -> tuple[str, ...]:
    """The steps of this release, in order. A gap in their numbers is a bug."""
    named = [(file, _FILE_NAME.fullmatch(file.name)) for file in (folder or files(__name__)).iterdir()]
    found = sorted((int(name[1]), file.read_text("utf-8")) for file, name in named if name)
    if [number for number, _ in found] != list(range(1, len(found) + 1)):
        raise InvariantBroken(f"the schema files are not numbered 1, 2, ...: {[number for number, _ in found]}")
    return tuple(sql for _, sql in found)
