"""The bearer token: the operator's, or one that is made once and kept for this user alone."""

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.disk_space import unwritable
from holdfast.core.errors import ConfigInvalid
from holdfast.ports.entropy import Entropy

FILE = "token"
TOKEN_BITS = 256
TOKEN_CHARS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Token:
    value: str
    file: Path | None  # where it is kept; None when the operator gave it

    def __repr__(self) -> str:
        return f"Token(file={self.file})"


def load_token(folder: Path, given: str | None, entropy: Entropy) -> Token:
    """The token to use. Called under the owner lock, so no second process makes one meanwhile."""
    if given:
        return Token(_checked(given, "HOLDFAST_TOKEN"), None)
    file = folder / FILE
    try:
        kept = _kept(file)
        if not kept:  # there is none, or a crash left an empty file
            file.unlink(missing_ok=True)
            kept = f"{entropy.bits(TOKEN_BITS):064x}"
            _keep(file, kept)
    except OSError as error:
        raise unwritable(f"the token cannot be kept in {file}", error, path=str(file)) from error
    return Token(_checked(kept, str(file)), file)


def _kept(file: Path) -> str:
    try:
        kept = file.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""
    file.chmod(0o600)
    return kept


def _keep(file: Path, token: str) -> None:
    """O_EXCL: a file or link that somebody else put there is not written through."""
    handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(token + "\n")
        opened.flush()
        os.fsync(opened.fileno())


def _checked(token: str, where: str) -> str:
    if len(token) > TOKEN_CHARS_MAX or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigInvalid(f"the token in {where} must be 1 to {TOKEN_CHARS_MAX} visible ASCII characters")
    return token
