"""What came with messages, by its hash. Whoever sent it chose its bytes, its name and its type.

Rule 1: a browser shows none of it as a page of ours: it is a download, of a type that the bytes themselves prove or of
        none, and may run nothing where it is shown all the same.
Rule 2: a token that names agents finds what was sent to those only (fence.py).
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
    """The type of an image that can be nothing else; anything else is bytes."""
    return next((media_type for magic, media_type in IMAGES.items() if body.startswith(magic)), OCTETS)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/attachments/{hash}",
        handler=get_attachment,
        scope=Scope.READ,
        summary="What came with a message, as a download; a message names its attachments with their hashes",
        path_schemas={"hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
        answers={200: None},
        media_type=OCTETS,
        errors=(400, 404),
    ),
)
