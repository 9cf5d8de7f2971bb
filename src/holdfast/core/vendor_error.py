"""What a vendor's failed answer says to an operator: status, request id, the vendor's own code, an extract of the body.

Rule 1: an extract holds no secret and no words that were sent. Vendors quote both in their errors, and forgetting a
        person does not reach the reasons in the store. Of a JSON body only fields that describe the error are read,
        never those that repeat the input; quotations and runs of words that were sent are left out of the rest.
Rule 2: the log gets `fields`: identifiers and numbers. The extract is for a reason in the store.
Rule 3: everything is bounded, and nothing a vendor sends makes this fail.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.core.redaction import redacted

EXTRACT_CHARS_MAX = 240
BODY_CHARS_MAX = 16_384
SENT_CHARS_MAX = 400_000
RUN_WORDS = 3  # so many words in the order in which they were sent are a quotation
LEFT_OUT = "[…]"
REQUEST_IDS = (
    *("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "mistral-correlation-id"),
    *("x-goog-request-id", "x-debug-trace-id", "x-correlation-id", "cf-ray"),
)
_TELLING = (
    "type",
    "code",
    "status",
    "loc",
    "param",
    "error",
    "errors",
    "message",
    "msg",
    "detail",
    "description",
    "title",
)
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
_QUOTED = re.compile(r"\"[^\"]*\"?|'[^']{2,}'|`[^`]*`?|“[^”]*”?|«[^»]*»?")
_PLAIN_NAME = re.compile(r"[\"'`“«][A-Za-z0-9-]*[_.:/\d][A-Za-z0-9_.:/-]*[\"'`”»]")  # a field or a model, as in 'top_p'
_TAG = re.compile(r"<[^>]*>")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorError:
    status: int = 0  # 0: there was none
    request_id: str = ""
    code: str = ""  # the vendor's own, such as rate_limit_error
    extract: str = ""

    @property
    def fields(self) -> dict[str, object]:
        """For a line of the log."""
        found = {"status": self.status, "request_id": self.request_id, "vendor_error": self.code}
        return {name: value for name, value in found.items() if value}

    @property
    def sentence(self) -> str:
        """For a reason in the store; empty when nothing is known."""
        parts = (
            f"status {self.status}" if self.status else "",
            f"request id {self.request_id}" if self.request_id else "",
            self.code,
            f"it said: {self.extract}" if self.extract else "",
        )
        return "; ".join(part for part in parts if part)


def vendor_error(
    status: int = 0, headers: Mapping[str, str] | None = None, body: object = None, *, sent: str = ""
) -> VendorError:
    """What is known of a failed call. `sent` is the text of the request; the extract repeats nothing of it."""
    value = _parsed(body)
    told = [(name, text) for name, text in _told(value, depth=0) if text != "error"]  # Anthropic's type of every error
    code = next((text for name, text in told if name in ("type", "code") and _CODE.fullmatch(text)), "")
    lower = {str(name).lower(): str(text) for name, text in (headers or {}).items()}
    ids = (*(lower.get(name, "") for name in REQUEST_IDS), _field(value, "request_id"), _field(value, "requestId"))
    words = " ".join(dict.fromkeys(text for name, text in told if text != code)) if told else _plain(value)
    return VendorError(
        status=status,
        request_id=next((found for found in ids if _ID.fullmatch(found)), ""),
        code=code,
        extract=_extract(words, sent),
    )


def _parsed(body: object) -> object:
    if isinstance(body, bytes):
        body = body[: BODY_CHARS_MAX * 4].decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    try:
        return json.loads(body[:BODY_CHARS_MAX])
    except (ValueError, RecursionError):
        return body[:BODY_CHARS_MAX]


def _told(value: object, *, depth: int, name: str = "") -> Iterator[tuple[str, str]]:
    """The fields that describe the error, with their names, in the order of `_TELLING`."""
    if depth > 4:
        return
    if isinstance(value, Mapping):
        for key in _TELLING:
            if key in value:
                yield from _told(value[key], depth=depth + 1, name=key)
    elif isinstance(value, list | tuple):
        for one in value[:4]:
            yield from _told(one, depth=depth + 1, name=name)
    elif isinstance(value, str | int) and name:
        yield name, str(value)


def _field(value: object, name: str) -> str:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else ""


def _plain(value: object) -> str:
    """A page for people, without its markup; nothing of a JSON body whose fields are not known."""
    return _TAG.sub(" ", value) if isinstance(value, str) else ""


def _extract(text: str, sent: str) -> str:
    text = " ".join(text[:BODY_CHARS_MAX].split())
    text = _QUOTED.sub(lambda found: found[0] if _PLAIN_NAME.fullmatch(found[0]) else LEFT_OUT, text)
    text = redacted(_without(text, sent[-SENT_CHARS_MAX:]))
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= EXTRACT_CHARS_MAX else text[: EXTRACT_CHARS_MAX - 1] + "…"


def _without(text: str, sent: str) -> str:
    """The text without the runs of words that were sent; a message that is shorter than a run counts as a whole."""
    asked = [word.casefold() for word in _WORD.findall(sent)]
    size = min(RUN_WORDS, len(asked))
    if not size:
        return text
    runs = {tuple(asked[n : n + size]) for n in range(len(asked) - size + 1)}
    found = list(_WORD.finditer(text))
    said = [one[0].casefold() for one in found]
    hidden = {n + k for n in range(len(said) - size + 1) if tuple(said[n : n + size]) in runs for k in range(size)}
    kept, at = "", 0
    for n, one in enumerate(found):
        if n not in hidden:
            kept += text[at : one.end()]
        elif n - 1 not in hidden:
            kept += text[at : one.start()] + LEFT_OUT
        at = one.end()
    return kept + text[at:]
