"""The lines of an encrypted log: each is a line of its own, so that a file which is cut off loses one line at most.

The order of lines and that none is missing is not proved: the log is for reading. What must be proved is in the store.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.kernel.errors import EncryptionUnavailable
from holdfast.store.encryption.key import EncryptionKey

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

SIGN = "encrypted "


class LineCipher:
    def __init__(self, key: EncryptionKey) -> None:
        self._fernet = _fernet(key.of_log)

    def encrypted(self, line: str) -> str:
        """Without a line break at its end, as it is given."""
        return f"{SIGN}{self._fernet.encrypt(line.encode('utf-8', 'replace')).decode('ascii')}"

    def readable(self, line: str) -> str | None:
        """The line as it was; one of before the encryption as it is. None for a line that the key does not fit."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - an extra

        if not line.startswith(SIGN):
            return line
        try:
            return self._fernet.decrypt(line.removeprefix(SIGN)).decode("utf-8")
        except InvalidToken:
            return None


def translated(lines: Iterable[str], former: LineCipher | None, now: LineCipher | None) -> Iterator[str]:
    """The lines under another key. Those that are under it already stay, and so do those that no key fits."""
    for line in lines:
        text = line if former is None else former.readable(line)
        if text is None or text.startswith(SIGN):
            yield line
        else:
            yield text if now is None else now.encrypted(text)


def _fernet(key: bytes) -> "Fernet":
    try:
        from cryptography.fernet import Fernet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise EncryptionUnavailable("the library that encrypts the log is not installed: cryptography") from error
    return Fernet(urlsafe_b64encode(key))
