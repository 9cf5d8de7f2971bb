"""Downloads over aiohttp, within a limit of size."""

import aiohttp

CHUNK_BYTES = 64 * 1024


async def read_body(answer: aiohttp.ClientResponse, bytes_max: int) -> bytes | None:
    """The body; None if it is larger than `bytes_max`."""
    body = bytearray()
    async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
        body += chunk
        if len(body) > bytes_max:
            return None
    return bytes(body)
