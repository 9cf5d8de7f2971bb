"""What each status of a message to Discord proves.

Discord's own refusals are JSON with a `code`; anything else comes from something before its API. What may have been
posted is sent once more with the same enforced nonce, which Discord knows for some minutes, so that the doubt is
resolved. A 429 is taken for a refusal whatever it comes from: a limiter answers before anything is handled, and a ban
that lasts an hour would otherwise end every reply as doubtful.
"""

from holdfast.kernel.status_table import Answer, Meaning, only

ANSWERS = (
    Answer(statuses=only(429), meaning=Meaning.NOT_SENT, says="the rate is limited, by Discord or before it"),
    Answer(statuses=(range(500, 600),), meaning=Meaning.DOUBTFUL, says="a server or a gateway failed"),
    Answer(statuses=only(401), own=True, meaning=Meaning.NOT_SENT, says="Discord refuses the token"),
    Answer(statuses=only(408), meaning=Meaning.DOUBTFUL, says="something gave up waiting"),
    Answer(statuses=(range(400, 500),), own=True, meaning=Meaning.DECLINED, says="Discord refused it"),
    Answer(
        statuses=(range(100, 500),),
        meaning=Meaning.DOUBTFUL,
        says="something before Discord's API answered; redirects are not followed",
    ),
)
