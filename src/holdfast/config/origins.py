"""Where each setting was written: in the agent's own table, in [defaults] or in a [models.NAME], and in which line.

An error of an inherited setting names the table that has to be corrected, so ten agents do not report it ten times.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

_KEY = re.compile(r"agents\.[^\s:=,;'\"\]]+")


class Origins(Struct, frozen=True, kw_only=True):
    """`keys` has the place of every setting that an agent took over; `lines` the line of every key of the file."""

    keys: Mapping[str, str] = {}
    lines: Mapping[str, int] = {}

    def of(self, key: str) -> str:
        """The key under which the setting was written."""
        known, rest = key, ""
        while known:
            if known in self.keys:
                return f"{self.keys[known]}{rest}"
            known, dot, last = known.rpartition(".")
            rest = f"{dot}{last}{rest}"
        return key

    def line(self, key: str) -> int | None:
        """The line of the file that sets the key, or the table around it; None if the file does not name it."""
        known = self.of(key)
        while known:
            if known in self.lines:
                return self.lines[known]
            known = known.rpartition(".")[0]
        return None

    def wrote(self, key: str) -> int | None:
        """The line of the file that sets exactly this key; None if the file does not."""
        return self.lines.get(self.of(key))

    def placed(self, text: str) -> str:
        """A message with the keys under which its settings were written."""
        return _KEY.sub(lambda found: self.of(found[0]), text)
