"""The types of ids and names in the JSON shapes, with their schemas in the OpenAPI document.

The schemas describe the checks of inbox/address.py. msgspec does not enforce them, so errors have Holdfast's codes.
"""

from typing import Annotated

from msgspec import Meta

Part = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 512, "pattern": "^[^\\u0000-\\u001f\\u007f]*$"})
]
Name = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"})]
