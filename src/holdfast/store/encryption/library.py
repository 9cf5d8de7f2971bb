"""Identifies which of two libraries is imported as `apsw`. If both are installed, one overwrites the other."""

from importlib.metadata import PackageNotFoundError, version

from holdfast.store.encryption.databases import can_encrypt

PLAIN, CIPHERS = "apsw", "apsw-sqlite3mc"


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
    found = {}
    for name in (PLAIN, CIPHERS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
