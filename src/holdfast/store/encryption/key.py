"""The key of an encrypted data folder, and the keys derived from it. Pure.

Rule 1: the operator's key encrypts nothing itself. Databases and the log each use a key derived from it and from the
        folder's salt, so that one key may serve several folders.
Rule 2: a key never appears in a `repr`, a log line or an error.
"""

import hmac
from dataclasses import dataclass, field
from hashlib import sha256

from holdfast.kernel.errors import EncryptionKeyInvalid

KEY_CHARS_MIN = 32
KEY_CHARS_DIFFERENT_MIN = 10  # a repeated word is not a key
SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """The key of one data folder."""

    _secret: bytes = field(repr=False)

    @property
    def of_databases(self) -> bytes:
        return self._derived("databases")

    @property
    def of_log(self) -> bytes:
        return self._derived("log")

    @property
    def check(self) -> str:
        """A value stored with the data, to distinguish a wrong key from damaged data."""
        return self._derived("check").hex()[:32]

    def _derived(self, purpose: str) -> bytes:
        return hmac.digest(self._secret, f"holdfast {purpose}".encode(), sha256)


def make_key(text: str, salt: bytes) -> EncryptionKey:
    """Derive a folder's key from the operator's text. Raises `EncryptionKeyInvalid`."""
    kept = text.strip()
    if len(kept) < KEY_CHARS_MIN:
        raise EncryptionKeyInvalid(f"the key has {len(kept)} characters; at least {KEY_CHARS_MIN} are needed")
    if len(set(kept)) < KEY_CHARS_DIFFERENT_MIN:
        raise EncryptionKeyInvalid(f"the key has only {len(set(kept))} different characters")
    return EncryptionKey(hmac.digest(salt, kept.encode(), sha256))
