"""Encrypted databases through SQLite3 Multiple Ciphers: it encrypts the pages of the file and of its WAL, not the WAL
index.

The library is `apsw-sqlite3mc`, which replaces `apsw` under the same import name. The key is 32 random bytes and is
passed raw: a key derivation per connection would cost time and add nothing. If both libraries are installed, one
overwrites the other.
"""

import apsw

from holdfast.kernel.errors import EncryptionUnavailable

PLAIN, CIPHERS = "apsw", "apsw-sqlite3mc"
CIPHER = "chacha20"
CIPHER_LAYER = "multipleciphers-"  # the prefix of the encrypting VFS, before the name of the VFS below it


def can_encrypt() -> bool:
    return hasattr(apsw, "mc_version")


def unlock(db: apsw.Connection, key: bytes) -> None:
    """Set the key, before any other use of a connection. Raises `EncryptionUnavailable` after closing it."""
    if not can_encrypt():
        db.close(True)
        raise EncryptionUnavailable("this data folder is encrypted, and the SQLite library in use cannot read it")
    db.execute(f"pragma cipher='{CIPHER}'").fetchall()
    db.execute(f"pragma key='raw:{key.hex()}'").fetchall()


def address_of(path: str, key: bytes | None) -> str:
    """The URI of a file that `vacuum into` creates with the key. It contains the key: never log it."""
    from urllib.parse import quote  # noqa: PLC0415 - used by one command

    return f"file:{quote(path)}?cipher={CIPHER}&key=" + (f"raw:{key.hex()}" if key is not None else "")


def library_in_use() -> str:
    """A sentence for the operator: the library, its version, whether it encrypts, and advice if both are installed."""
    name = CIPHERS if can_encrypt() else PLAIN
    able = "can encrypt" if can_encrypt() else "cannot encrypt"
    found = installed()
    told = f"{name} {found.get(name, 'of an unknown version')}, {able}"
    if len(found) == 2:
        told += (
            f"; {PLAIN} and {CIPHERS} are both installed and overwrite each other:"
            f" pip uninstall -y {PLAIN} {CIPHERS}, then install the one you want"
        )
    return told


def installed() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - used by one command

    found = {}
    for name in (PLAIN, CIPHERS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
