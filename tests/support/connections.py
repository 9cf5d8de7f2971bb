"""The connections of aiohttp's clients that were not returned."""

import gc

from aiohttp.connector import Connection


def still_open() -> list[Connection]:
    """aiohttp warns of each once it is collected, which may be during another test."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Connection) and one.protocol is not None]
