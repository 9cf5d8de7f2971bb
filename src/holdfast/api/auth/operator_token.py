"""The operator's token: set in HOLDFAST_TOKEN, or created once in a file that only this user can read.

A token that can be guessed is refused on every address, including loopback, because a proxy may forward to it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.errors import TokenTooShort, TokenTooWeak
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.files import unwritable
from holdfast.kernel.ports import Entropy

FILE = "token"
VARIABLE = "HOLDFAST_TOKEN"
TOKEN_BITS = 256
TOKEN_CHARS_MIN = 32
TOKEN_CHARS_MAX = 1_024
CHARS_DISTINCT_MIN = 8  # 32 random hex digits have fewer distinct ones once in twenty million times


@dataclass(frozen=True, slots=True)
class Token:
    value: str
    file: Path | None  # where the token is kept; None if the operator set it

    def __repr__(self) -> str:
        return f"Token(file={self.file})"


def load_token(folder: Path, given: str | None, entropy: Entropy) -> Token:
    """The token to use. The caller holds the owner lock, so no second process creates a token at the same time."""
    if given:
        return Token(_checked(given, VARIABLE), None)
    file = folder / FILE
    try:
        kept = _read(file)
        if kept:
            file.chmod(0o600)
        else:  # the file is missing, or a crash left it empty
            file.unlink(missing_ok=True)
            kept = f"{entropy.bits(TOKEN_BITS):064x}"
            _keep(file, kept)
    except OSError as error:
        raise unwritable(f"the token cannot be kept in {file}", error, path=str(file)) from error
    return Token(_checked(kept, str(file)), file)


def check_token(folder: Path, given: str | None) -> None:
    """Raise the errors of `load_token` about the token, without creating or changing it."""
    if given:
        _checked(given, VARIABLE)
        return
    file = folder / FILE
    try:
        kept = _read(file)
    except OSError as error:
        raise ConfigInvalid(f"the token in {file} cannot be read: {error.strerror}", path=str(file)) from error
    if kept:
        _checked(kept, str(file))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _keep(file: Path, token: str) -> None:
    """Write the token. O_EXCL prevents writing through a file or link that another user put there."""
    handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(token + "\n")
        opened.flush()
        os.fsync(opened.fileno())


def _checked(token: str, where: str) -> str:
    if len(token) > TOKEN_CHARS_MAX or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigInvalid(
            f"the token in {where} must be {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX} visible ASCII characters"
        )
    if len(token) < TOKEN_CHARS_MIN:
        why = f"the token in {where} has {len(token)} characters; {TOKEN_CHARS_MIN} are needed"
        raise TokenTooShort(why)
    if len(set(token)) < CHARS_DISTINCT_MIN or _repeats(token):
        raise TokenTooWeak(f"the token in {where} repeats a few characters; it must be random")
    return token


def _repeats(token: str) -> bool:
    """Whether the token repeats one part that is at most half as long."""
    return any(token[size:] == token[:-size] for size in range(1, len(token) // 2 + 1))
