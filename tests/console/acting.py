"""Pressing the button of a dialog without a browser."""

import html
import json
import re

import httpx

from tests.support.live import Live


async def acted(live: Live, dialog: str) -> httpx.Response:
    """Send the request of a dialog's only button, as the script sends it."""
    (button,) = re.findall(r"<button[^>]* data-act=[^>]*>", dialog)
    given = {name: html.unescape(value) for name, value in re.findall(r'([a-z-]+)="([^"]*)"', button)}
    body = json.loads(given["data-body"]) if given.get("data-body") else None
    return await live.post(given["data-act"], body)
