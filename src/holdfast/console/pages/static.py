"""The files that every page loads. They are the same for everybody and need no login."""

from starlette.responses import Response

from holdfast.api.endpoint import OPEN, Endpoint, HttpCall
from holdfast.api.errors import NotFound
from holdfast.console.assets import STATIC, TYPES, asset

KEPT = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


async def _static(call: HttpCall) -> Response:
    name = call.request.path_params["name"]
    if name not in TYPES:
        raise NotFound(f"the console has no file {name[:80]!r}")
    return Response(asset(name), media_type=TYPES[name], headers=KEPT)


get_static = Endpoint(
    method="GET",
    path=f"{STATIC}/{{name}}",
    scope=OPEN,
    handler=_static,
    summary="A file of the console",
    answers={200: None},
    any_query=True,
)
