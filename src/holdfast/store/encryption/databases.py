"""Encrypted databases through SQLite3 Multiple Ciphers: it encrypts the pages of the file and of its WAL, not the WAL
index.

The library is `apsw-sqlite3mc`, which replaces `apsw` under the same import name. The key is 32 random bytes and is
passed raw: a key derivation per connection would cost time and add nothing.
"""

import apsw

from holdfast.kernel.errors import EncryptionUnavailable

CIPHER = "chacha20"
CIPHER_LAYER = "multipleciphers-"  # the prefix of the encrypting VFS, before the name of the VFS below it


def can_encrypt() -> bool:
    return hasattr(apsw, "mc_version")


def unlock(db: apsw.Connection, key: bytes | None) -> None:
    """Set the key, before any other use of a connection. Raises `EncryptionUnavailable` after closing it."""
    if key is None:
        return
    if not can_encrypt():
        db.close(True)
        raise EncryptionUnavailable("this data folder is encrypted, and the SQLite library in use cannot read it")
    db.execute(f"pragma cipher='{CIPHER}'").fetchall()
    db.execute(f"pragma key='raw:{key.hex()}'").fetchall()


def address_of(path: str, key: bytes | None) -> str:
    """The URI of a file that `vacuum into` creates with the key. It contains the key: never log it."""
    from urllib.parse import quote  # noqa: PLC0415 - used by one command

    return f"file:{quote(path)}?cipher={CIPHER}&key=" + (f"raw:{key.hex()}" if key is not None else "")
