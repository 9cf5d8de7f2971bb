"""The style sheet, the script and the icons. Their addresses change with their contents, so browsers keep them."""

import hashlib
from functools import cache
from importlib.resources import files

TYPES = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "timeline.js": "text/javascript; charset=utf-8",
    "views.css": "text/css; charset=utf-8",
    "icons.svg": "image/svg+xml",
    "mark.svg": "image/svg+xml",
}
STATIC = "/console/static"


@cache
def asset(name: str) -> bytes:
    return files("holdfast.console").joinpath("static", name).read_bytes()


@cache
def asset_path(name: str) -> str:
    return f"{STATIC}/{name}?v={hashlib.sha256(asset(name)).hexdigest()[:12]}"
