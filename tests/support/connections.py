"""Connections of clients that were not closed."""

import gc

from aiohttp.connector import Connection
from websockets.asyncio.client import ClientConnection


def still_open() -> list[Connection]:
    """aiohttp warns of each once it is collected, which may be during another test."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Connection) and one.protocol is not None]


def open_sockets() -> list[ClientConnection]:
    """The WebSockets of the library websockets whose transport is open."""
    gc.collect()
    found = [one for one in gc.get_objects() if isinstance(one, ClientConnection)]
    return [one for one in found if not one.transport.is_closing()]
