"""The words that the outside surface is made of: ids and names, with what the document says of them.

What inbox/address.py checks is only said here. msgspec checks none of it, so that an error has a code of our own.
"""

from typing import Annotated

from msgspec import Meta

Part = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 512, "pattern": "^[^\\u0000-\\u001f\\u007f]*$"})
]
Name = Annotated[str, Meta(extra_json_schema={"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"})]
