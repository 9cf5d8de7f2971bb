"""What each status of a write to Hindsight proves.

Hindsight (1.1.0) answers an error with a JSON object whose only field is `detail`; a response of that shape counts as
its own. The distinction matters only for refusals: they park a delivery, so a proxy's 400 or 413 must not pass for one.
Every other doubt is harmless: the document's id is made from the delivery, a write replaces the document, and a known
operation id does no new work. A repeated write has the effect of one, so it is resent without a quiet period. An
erasure does wait for the quiet period (memory/lane.py), as a late write would bring the text back.
"""

from holdfast.kernel.status_table import Answer, Meaning, only

ANSWERS = (
    Answer(
        statuses=only(400, 409, 422),
        own=True,
        meaning=Meaning.REFUSED,
        says="Hindsight refused the content or the request",
    ),
    Answer(
        statuses=only(400, 409, 413, 414, 415, 422, 431),
        meaning=Meaning.SUSPECT,
        says="a proxy before Hindsight refused it, perhaps as too large",
    ),
    Answer(statuses=only(401, 403), meaning=Meaning.UNREACHABLE, says="Hindsight refused the key"),
    Answer(statuses=only(429, 503), meaning=Meaning.UNREACHABLE, says="Hindsight is busy"),
    Answer(
        statuses=(*only(408, 502, 504), range(520, 531)),
        meaning=Meaning.UNCERTAIN,
        says="Hindsight gave no answer in time",
    ),
    Answer(statuses=(range(500, 600),), meaning=Meaning.SUSPECT, says="Hindsight failed"),
    Answer(
        statuses=(range(300, 400),),
        meaning=Meaning.UNREACHABLE,
        says="Hindsight was not asked: hindsight.url redirects",
    ),
    Answer(
        statuses=(range(400, 500),),
        meaning=Meaning.UNREACHABLE,
        says="the server at hindsight.url does not answer as Hindsight does; check the address",
    ),
)
