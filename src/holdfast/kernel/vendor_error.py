"""A vendor's answer: what the status of a write proves (D47), and the details of an error response that are kept.

Each adapter has one table of answers, and its error translation uses only that table; docs/reference/answers.md is
generated from the same rows. A status may come from an intermediary (a proxy, a gateway, a load balancer), which may
still forward the request. An answer is the server's own only if its body has a shape that no intermediary produces;
each table defines that shape.

The details are status, request id, the vendor's own code and an extract of the body.

Rule 1: an extract contains no secret and no text of the request. Vendors quote both in their errors, and a forget
        request does not reach the reasons in the store. Of a JSON body only fields that describe the error are read,
        never those that repeat the input; quotations and runs of words of the request are removed from the rest.
Rule 2: the log gets `fields`: identifiers and numbers. The extract is for a reason in the store.
Rule 3: all sizes are bounded, and no response makes this module raise.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.kernel.redaction import HIDDEN, redacted

EXTRACT_CHARS_MAX = 240
BODY_CHARS_MAX = 16_384
SENT_CHARS_MAX = 4_000_000  # the largest request of any adapter
RUN_WORDS = 3  # this many words in the order of the request are a quotation
LEFT_OUT = "[…]"
REASON_CHARS_MAX = 400
DEPTH_MAX = 8
REQUEST_IDS = (
    *("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "mistral-correlation-id"),
    *("x-goog-request-id", "x-debug-trace-id", "x-correlation-id", "x-slack-req-id", "cf-ray"),
)
_TELLING = (
    *("type", "code", "status", "loc", "param", "error", "errors"),
    *("message", "msg", "detail", "description", "title"),
)
_NUMBER = re.compile(r"-?[0-9]{1,12}")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}")
_QUOTED = re.compile(r"\"[^\"]*\"?|'[^']{2,}'|`[^`]*`?|“[^”]*”?|«[^»]*»?")
_PLAIN_NAME = re.compile(r"[\"'`“«][A-Za-z0-9-]*[_.:/\d][A-Za-z0-9_.:/-]*[\"'`”»]")  # a field or a model: 'top_p'
_TAG = re.compile(r"<[^>]*>")
_WORD = re.compile(r"\w+")


class Meaning(Enum):
    """The conclusion from an answer. The documentation shows the values."""

    # for memory providers
    REFUSED = "refused"  # not stored, and never will be
    UNREACHABLE = "unreachable"  # not stored, or storing it twice is harmless; retried
    SUSPECT = "unreachable, suspect"  # the same, and the content may be the cause
    UNCERTAIN = "uncertain"  # possibly stored: looked up, and resent only after the quiet period
    UNCERTAIN_SUSPECT = "uncertain, suspect"
    # for channels
    DECLINED = "declined"  # not posted, and never will be
    NOT_SENT = "not sent"  # not posted; retried
    DOUBTFUL = "doubtful"  # possibly posted


@dataclass(frozen=True, slots=True)
class Answer:
    """One row. `own` restricts it to answers that are provably the server's own, or not; None matches both."""

    statuses: tuple[range, ...]
    meaning: Meaning
    says: str  # a sentence for people, without the body or a key
    own: bool | None = None

    @property
    def shown(self) -> str:
        return ", ".join(f"{some[0]} to {some[-1]}" if len(some) > 1 else str(some[0]) for some in self.statuses)


def only(*statuses: int) -> tuple[range, ...]:
    return tuple(range(status, status + 1) for status in statuses)


def answer_to(table: Sequence[Answer], status: int, *, own: bool) -> Answer:
    """The first row that covers the status. Every table ends with rows that cover all statuses."""
    for row in table:
        if row.own in (None, own) and any(status in some for some in row.statuses):
            return row
    return table[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorError:
    status: int = 0  # 0 without a response
    request_id: str = ""
    code: str = ""  # the vendor's own, such as rate_limit_error or 50007
    extract: str = ""

    @property
    def fields(self) -> dict[str, object]:
        """The fields for a log line."""
        found = {"status": self.status, "request_id": self.request_id, "vendor_error": self.code}
        return {name: value for name, value in found.items() if value}

    @property
    def sentence(self) -> str:
        """A reason for the store; empty if nothing is known."""
        parts = (
            f"status {self.status}" if self.status else "",
            f"request id {self.request_id}" if self.request_id else "",
            f"code {self.code}" if self.code.isdigit() else self.code,
            f"it said: {self.extract}" if self.extract else "",
        )
        return "; ".join(part for part in parts if part)

    def added_to(self, reason: str) -> str:
        """A reason for the store, with the vendor's answer added."""
        detail = self.sentence
        return f"{reason} ({detail})" if detail and reason else reason or detail

    def kept(self, reason: str | None) -> str | None:
        """The same as it is stored; None if nothing is known. The log gets `fields` instead."""
        return short(self.added_to(reason or "")) or None


NO_ANSWER = VendorError()


def short(text: str) -> str:
    """Another service's text as a reason: on one line, shortened, without NUL."""
    return " ".join(text.replace("\0", "").split())[:REASON_CHARS_MAX]


def vendor_error(
    status: int = 0,
    headers: Mapping[str, str] | None = None,
    body: object = None,
    *,
    sent: str | Collection[str] = "",
    code_in: str = "",
    secrets: Collection[str] = (),
) -> VendorError:
    """Collect the details of a failed call.

    `sent` is the text of the request, or its texts; the extract omits them and all `secrets`. `code_in` names the field
    of the body with the vendor's own code, if that is not called type or code.
    """
    value = _parsed(body)
    given = _field(value, code_in)
    told = [(name, text) for name, text in _told(value, depth=0) if text != "error"]  # Anthropic's type of any error
    found = next((text for name, text in told if name in ("type", "code") and _CODE.fullmatch(text)), "")
    code = given if _CODE.fullmatch(given) or _NUMBER.fullmatch(given) else found
    lower = {str(name).lower(): str(text) for name, text in (headers or {}).items()}
    ids = (*(lower.get(name, "") for name in REQUEST_IDS), _field(value, "request_id"), _field(value, "requestId"))
    words = " ".join(dict.fromkeys(text for name, text in told if text != code)) if told else _plain(status, value)
    return VendorError(
        status=status,
        request_id=next((one for one in ids if _ID.fullmatch(one) and not _has(one, secrets)), ""),
        code="" if _has(code, secrets) else code,
        extract=_extract(words, [sent] if isinstance(sent, str) else sent, secrets),
    )


def texts_in(value: object, depth: int = 0) -> list[str]:
    """Every text in a JSON value, such as a request body."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [text for one in inner for text in texts_in(one, depth + 1)] if depth < DEPTH_MAX else []


def _has(text: str, secrets: Collection[str]) -> bool:
    return any(secret and secret in text for secret in secrets)


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
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _plain(status: int, value: object) -> str:
    """The text of an HTML page, without its markup.

    Empty for broken JSON, for JSON with unknown fields and for an unreadable success, which may contain user content.
    """
    if not isinstance(value, str) or value.lstrip()[:1] in ("{", "[", '"') or 200 <= status < 300:
        return ""
    return _TAG.sub(" ", value)


def _extract(text: str, sent: Collection[str], secrets: Collection[str]) -> str:
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN)
    text = " ".join(text[:BODY_CHARS_MAX].split())
    text = _QUOTED.sub(lambda found: found[0] if _PLAIN_NAME.fullmatch(found[0]) else LEFT_OUT, text)
    text = redacted(_without(text, sent))
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= EXTRACT_CHARS_MAX else text[: EXTRACT_CHARS_MAX - 1] + "…"


def _without(text: str, sent: Collection[str]) -> str:
    """The text without runs of words of the request; a request text shorter than a run counts as one run."""
    found = list(_WORD.finditer(text))
    said = [one[0].casefold() for one in found]
    hidden: set[int] = set()
    for size, runs in _runs(sent, said).items():
        starts = (n for n in range(len(said) - size + 1) if tuple(said[n : n + size]) in runs)
        hidden.update(n + k for n in starts for k in range(size))
    kept, at = "", 0
    for n, one in enumerate(found):
        if n not in hidden:
            kept += text[at : one.end()]
        elif n - 1 not in hidden:
            kept += text[at : one.start()] + LEFT_OUT
        at = one.end()
    return kept + text[at:]


def _runs(sent: Collection[str], said: list[str]) -> dict[int, set[tuple[str, ...]]]:
    """The runs of words, by size, that occur in both the response and the request."""
    by_size = {size: set(_windows(said, size)) for size in range(1, RUN_WORDS + 1)}
    common: dict[int, set[tuple[str, ...]]] = {size: set() for size in by_size}
    for text in sent:
        asked = _WORD.findall(text[-SENT_CHARS_MAX:].casefold())
        size = min(RUN_WORDS, len(asked))
        if size:
            common[size].update(by_size[size].intersection(_windows(asked, size)))
    return common


def _windows(words: list[str], size: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[n:] for n in range(size)), strict=False)
