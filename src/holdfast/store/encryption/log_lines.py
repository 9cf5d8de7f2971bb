"""An encrypted log: each line is encrypted separately, so a truncated file loses one line at most.

The encryption does not protect the order or the completeness of lines. Records that need proof are in the store.
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
        """The encrypted line. Input and output have no line break."""
        return f"{SIGN}{self._fernet.encrypt(line.encode('utf-8', 'replace')).decode('ascii')}"

    def readable(self, line: str) -> str | None:
        """The decrypted line; a line from before the encryption is unchanged. None if the key does not match."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - an extra

        if not line.startswith(SIGN):
            return line
        try:
            return self._fernet.decrypt(line.removeprefix(SIGN)).decode("utf-8")
        except InvalidToken:
            return None


def translated(lines: Iterable[str], former: LineCipher | None, now: LineCipher | None) -> Iterator[str]:
    """Re-encrypt lines under another key. Lines already under it stay, and so do lines that neither key matches."""
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
