"""What each status of a write to Hindsight proves.

Hindsight (1.1.0) answers an error with a JSON object whose only field is `detail`; that shape is taken for its own. It
matters for refusals only: they park a delivery, so a proxy's 400 or 413 must not pass for one. Whatever else an answer
leaves open is harmless: the document's id is made from the delivery, a write replaces the document, and an operation id
that the server knows does no new work. A repetition has the effect of one, so it is sent again without a quiet period.
What takes words away waits for it (memory/lane.py), as a late write would bring them back.
"""

from holdfast.kernel.status_table import Answer, Meaning, only

ANSWERS = (
    Answer(
        statuses=only(400, 409, 422),
        own=True,
        meaning=Meaning.REFUSED,
        says="Hindsight refused it: it cannot take content or a request like this",
    ),
    Answer(
        statuses=only(400, 409, 413, 414, 415, 422, 431),
        meaning=Meaning.SUSPECT,
        says="something before Hindsight refused it, perhaps as too large for it",
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
        says="hindsight.url answers in a way that a Hindsight does not; look at the address",
    ),
)
