"""The location of a store: a folder on this machine, or a PostgreSQL database. Pure: text in, text out.

Rule 1: text of the form `scheme://...` is an address and never a folder. `postgresql` and `postgres` are accepted,
        also with a driver name after a `+`, as in SQLAlchemy; every other scheme is refused.
Rule 2: `Path` turns `//` into `/`, so `scheme:/` marks an address that passed through a `Path`; it is refused.
Rule 3: an address may contain a password, so an error message repeats only its scheme.

Use an absolute path for a folder whose name looks like an address. This module opens nothing.
"""

import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.kernel.errors import StorePathInvalid

EXAMPLE = "postgresql://user:password@host:5432/database"
HINT = f"Give a folder on a local disk, or, to a program, {EXAMPLE}; percent-encode what is special in a password."
PORT_MAX = 65_535

_ADDRESS = re.compile(
    r"\s*(?P<scheme>[a-z][a-z0-9.-]+)(?:\+(?P<driver>[a-z0-9_.-]*))?:(?P<rest>/.*)", re.IGNORECASE | re.DOTALL
)
_SETTINGS = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=", re.IGNORECASE)
_POSTGRES = re.compile(r"\s*postgres(ql)?(\+\w*)?:", re.IGNORECASE)


def postgres_address(data: Path | str) -> str | None:
    """The address of a PostgreSQL database in the driver's form, or None for a folder.

    Raises `StorePathInvalid` for another kind of address and for one that cannot be parsed.
    """
    found = _ADDRESS.fullmatch(str(data))
    if found is None:
        if _POSTGRES.match(str(data)):
            raise _wrong(f"a PostgreSQL address has // behind its colon: {EXAMPLE}")
        if _SETTINGS.match(str(data)):
            raise _wrong(f"settings of a connection are no folder; write them as an address: {EXAMPLE}")
        return None
    scheme = found["scheme"].lower()
    if scheme not in ("postgresql", "postgres"):
        raise _wrong(f"the address begins with {scheme}://, and a store is a folder or a PostgreSQL database")
    if not found["rest"].startswith("//") or isinstance(data, Path):
        raise _wrong("a PostgreSQL address is no folder; a program opens it, as text, with holdfast.open")
    _check_ports(f"postgresql:{found['rest'].rstrip()}")
    return f"postgresql:{found['rest'].rstrip()}"


def _check_ports(address: str) -> None:
    """Refuse an invalid port before the driver reads it; a `/` in a password also ends up there."""
    try:
        parts = urlsplit(address)
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise _wrong("the PostgreSQL address cannot be read") from error
    hosts = parts.netloc.rpartition("@")[2].split(",")
    named = [re.fullmatch(r"(?:\[[^\]]*\]|[^:]*)(?::(.*))?", host, re.DOTALL) for host in hosts]
    ports = [unquote(match[1] or "") if match else "?" for match in named]
    ports += [port for value in options.get("port", []) for port in value.split(",")]
    if any(port and not _is_port(port) for port in ports):
        raise _wrong(f"the port in the PostgreSQL address is not a number from 1 to {PORT_MAX}")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= PORT_MAX


def _wrong(what: str) -> StorePathInvalid:
    return StorePathInvalid(what, hint=HINT)
