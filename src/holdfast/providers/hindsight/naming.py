"""Names in Hindsight: the bank of a turn, made from a template.

The placeholders are `{agent}`, `{profile}` (the agent by its Hermes name), `{platform}` (the channel of the address),
`{user}` (the speaker), `{session}` and `{chat}`. Their values are those of the time when the turn was committed.

Rule 1: two different sets of values never make equal banks. A character outside `A-Z a-z 0-9 . _ -`, and any that
        stands between two placeholders of the template, is written as `~` and its UTF-8 bytes in hexadecimal. If
        escaping cannot keep two values apart, a hash of the values follows after `~~`.
Rule 2: a bank has at most 192 bytes, the server's limit. A longer name is cut, and its hash follows after `~~`.
        Escaping never writes `~~`, so a name with a hash never equals one without.
Rule 3: a place is `<bank>/<session>`, or `<bank>/memory` and the scope for the agent's notes. A bank has no `/`, so
        the bank can be read from the place even after the template has changed.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.ids import AgentName
from holdfast.memory.delivery import NamingInputs
from holdfast.memory.visibility import person_of

BANK_BYTES_MAX = 192
PLACEHOLDERS = ("agent", "profile", "platform", "user", "session", "chat")
MEMORY = "memory"
_HASH_DIGITS = 32
_HASH_MARK = "~~"
_NOTHING = "~"  # the bank of a template that resolves to nothing; no value is escaped like this
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ESCAPES = frozenset("~0123456789ABCDEF")  # the characters that escaping writes
_PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)|([{}])")
_LITERAL = re.compile(r"[A-Za-z0-9._:-]*\Z")
_ADDRESS_PARTS_MIN = 5


def escaped(text: str, also: frozenset[str] = frozenset()) -> str:
    """`text` in safe characters, without those of `also`; different texts stay different."""
    return "".join(char if char in _SAFE and char not in also else _hex(char) for char in text)


def fitted(name: str, bytes_max: int = BANK_BYTES_MAX) -> str:
    """An ASCII name, shortened to the limit; different names stay different."""
    if len(name) <= bytes_max:
        return name
    return name[: bytes_max - _HASH_DIGITS - len(_HASH_MARK)] + _HASH_MARK + _hash(name)


def bank_of(place: str) -> str:
    return place.partition("/")[0]


@dataclass(frozen=True, slots=True)
class BankTemplate:
    """Implements `Naming`. Raises `ConfigInvalid` for an invalid template."""

    template: str = "{agent}"

    def __post_init__(self) -> None:
        if not self.template:
            raise ConfigInvalid('bank is "": write a name or a template such as "{agent}"')
        for name, literal, brace in _PIECE.findall(self.template):
            if brace or (name not in PLACEHOLDERS and not literal):
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                what = f"{{{name}}} is not a placeholder" if not brace else f"{brace} is unbalanced"
                raise ConfigInvalid(f"bank: {self.template!r}: {what}; use {known}", value=self.template)
            if not _LITERAL.match(literal):
                allowed = "outside placeholders use only letters, digits and . _ : -"
                raise ConfigInvalid(f"bank: {self.template!r}: {allowed}", value=self.template)

    def place(self, inputs: NamingInputs) -> str:
        return f"{self.bank(inputs)}/{inputs.session}"

    def memory_place(self, agent: AgentName, subject: str) -> str:
        """The bank made from the agent and the person alone. Each scope has its own lane, so that one slow write delays
        no other person's notes."""
        bank = self._bank({"agent": agent, "profile": agent, "user": person_of(subject) or subject})
        return f"{bank}/{MEMORY}/{escaped(subject)}" if subject else f"{bank}/{MEMORY}"

    def bank(self, inputs: NamingInputs) -> str:
        platform, chat = _channel_and_chat(inputs.address)
        values = {
            "agent": inputs.agent,
            "profile": inputs.agent,
            "platform": platform,
            "user": inputs.principal,
            "session": inputs.session,
            "chat": chat,
        }
        return self._bank(values)

    def _bank(self, values: Mapping[str, str]) -> str:
        pieces = [(name, literal) for name, literal, _ in _PIECE.findall(self.template)]
        between = _between(pieces)
        apart = frozenset("".join(between))
        used = [values.get(name, "") for name, _ in pieces if name]
        written = "".join(escaped(values.get(name, ""), apart) if name else literal for name, literal in pieces)
        if "" in between or apart & _ESCAPES:
            written = f"{written}{_HASH_MARK}{_hash(json.dumps(used))}"
        if not written.strip("."):  # a path segment of dots would name another path
            written = written.replace(".", _hex(".")) or _NOTHING
        return fitted(written)


def _between(pieces: list[tuple[str, str]]) -> list[str]:
    """The literal text between each pair of consecutive placeholders."""
    at = [position for position, (name, _) in enumerate(pieces) if name]
    return ["".join(literal for _, literal in pieces[first + 1 : last]) for first, last in pairwise(at)]


def _channel_and_chat(address: str) -> tuple[str, str]:
    parts = address.split(":")
    return (parts[2], unquote(parts[4])) if len(parts) >= _ADDRESS_PARTS_MIN else ("", "")


def _hex(char: str) -> str:
    return "".join(f"~{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
