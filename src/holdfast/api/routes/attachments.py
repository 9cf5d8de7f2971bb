"""Attachments of messages, by hash. The sender chose their bytes, name and type.

Rule 1: a browser never shows an attachment as a page of this server. It is a download, its type is proven by its bytes
        or omitted, and its headers forbid scripts.
Rule 2: a token that names agents finds attachments of those agents only (auth/viewer.py).
"""

from urllib.parse import quote

from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import PRIVATE, HttpCall, route
from holdfast.inbox.chat_message import attachment_hash
from holdfast.kernel.errors import AttachmentNotFound

OCTETS = "application/octet-stream"
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
HARMLESS = {**PRIVATE, "Content-Security-Policy": "default-src 'none'; sandbox"}


@route(
    "GET /v1/attachments/{hash}",
    Scope.READ,
    media_type=OCTETS,
    path_schemas={"hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
)
async def get_attachment(call: HttpCall) -> Response:
    """An attachment of a message as a download; the message lists the hashes of its attachments."""
    wanted = attachment_hash(call.request.path_params["hash"])
    found = await call.viewer.attachment(wanted)
    if found is None:
        raise AttachmentNotFound(f"there is no attachment {wanted}", hash=wanted)
    about, body = found
    named = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(about.name, safe='')}"}
    return Response(body, headers={**HARMLESS, **named}, media_type=_proven_type(body))


def _proven_type(body: bytes) -> str:
    """The image type that the first bytes prove; any other attachment has a generic type."""
    return next((media_type for magic, media_type in IMAGES.items() if body.startswith(magic)), OCTETS)
