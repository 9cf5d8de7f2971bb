"""Encrypted databases, by SQLite3 Multiple Ciphers: the pages of the file and of its log, never the log's index.

The library comes as `apsw-sqlite3mc`, which has the import name of `apsw` and takes its place. The key is 32 random
bytes, so it is given raw: deriving it again for every connection would cost time and add nothing.
"""

import apsw

from holdfast.kernel.errors import EncryptionUnavailable

CIPHER = "chacha20"
CIPHER_LAYER = "multipleciphers-"  # the file layer that encrypts is named so, before the name of the one below


def can_encrypt() -> bool:
    return hasattr(apsw, "mc_version")


def unlock(db: apsw.Connection, key: bytes | None) -> None:
    """The first thing that is done with a connection. Raises `EncryptionUnavailable`, and closes it then."""
    if key is None:
        return
    if not can_encrypt():
        db.close(True)
        raise EncryptionUnavailable("this data folder is encrypted, and the SQLite library in use cannot read it")
    db.execute(f"pragma cipher='{CIPHER}'").fetchall()
    db.execute(f"pragma key='raw:{key.hex()}'").fetchall()


def address_of(path: str, key: bytes | None) -> str:
    """A file as `vacuum into` takes it, to be made with the key. It holds the key: never show it."""
    from urllib.parse import quote  # noqa: PLC0415 - needed by one command

    return f"file:{quote(path)}?cipher={CIPHER}&key=" + (f"raw:{key.hex()}" if key is not None else "")
