"""What each status of a write to Hindsight proves.

Hindsight (1.1.0) answers an error with a JSON object whose only field is `detail`; a response of that shape counts as
its own. The distinction matters only for refusals: they park a delivery, so a proxy's 400 or 413 must not pass for one.
Every other doubt is harmless: the document's id is made from the delivery, a write replaces the document, and a known
operation id does no new work. A repeated write has the effect of one, so it is resent without a quiet period. An
erasure does wait for the quiet period (memory/lane.py), as a late write would bring the text back.
"""

from holdfast.kernel.vendor_error import Answer, Meaning, only

ANSWERS = (
    Answer(only(400, 409, 422), Meaning.REFUSED, "Hindsight refused the content or the request", own=True),
    Answer(
        only(400, 409, 413, 414, 415, 422, 431),
        Meaning.SUSPECT,
        "a proxy before Hindsight refused it, perhaps as too large",
    ),
    Answer(only(401, 403), Meaning.UNREACHABLE, "Hindsight refused the key"),
    Answer(only(429, 503), Meaning.UNREACHABLE, "Hindsight is busy"),
    Answer((*only(408, 502, 504), range(520, 531)), Meaning.UNCERTAIN, "Hindsight gave no answer in time"),
    Answer((range(500, 600),), Meaning.SUSPECT, "Hindsight failed"),
    Answer((range(300, 400),), Meaning.UNREACHABLE, "Hindsight was not asked: hindsight.url redirects"),
    Answer(
        (range(400, 500),),
        Meaning.UNREACHABLE,
        "the server at hindsight.url does not answer as Hindsight does; check the address",
    ),
)
