"""Attachments of messages, by hash. The sender chose their bytes, name and type.

Rule 1: a browser never shows an attachment as a page of this server. It is a download, its type is proven by its bytes
        or omitted, and its headers forbid scripts.
Rule 2: a token that names agents finds attachments of those agents only (auth/scoped_service.py).
"""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.auth.access_token import Scope
from holdfast.api.endpoint import PRIVATE, Endpoint, Settings
from holdfast.api.request import QueryParameters
from holdfast.inbox.addressing import attachment_hash
from holdfast.kernel.errors import AttachmentNotFound

OCTETS = "application/octet-stream"
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
HARMLESS = {**PRIVATE, "Content-Security-Policy": "default-src 'none'; sandbox"}


async def get_attachment(request: Request, settings: Settings) -> Response:
    QueryParameters(request, ())
    wanted = attachment_hash(request.path_params["hash"])
    found = await settings.service.find_attachment(wanted)
    body = await settings.service.read_attachment(wanted) if found is not None else None
    if found is None or body is None:
        raise AttachmentNotFound(f"there is no attachment {wanted}", hash=wanted)
    named = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}"}
    return Response(body, headers={**HARMLESS, **named}, media_type=_proven_type(body))


def _proven_type(body: bytes) -> str:
    """The image type that the first bytes prove; any other attachment has a generic type."""
    return next((media_type for magic, media_type in IMAGES.items() if body.startswith(magic)), OCTETS)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/attachments/{hash}",
        handler=get_attachment,
        scope=Scope.READ,
        summary="An attachment of a message as a download; the message lists the hashes of its attachments",
        path_schemas={"hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
        answers={200: None},
        media_type=OCTETS,
        errors=(400, 404),
    ),
)
