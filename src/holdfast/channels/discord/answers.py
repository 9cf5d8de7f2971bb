"""What each HTTP status of a message to Discord proves.

Discord's own refusals are JSON with a `code`; any other answer comes from a server in front of its API. A message whose
outcome is unknown is sent once more with the same enforced nonce, which Discord remembers for some minutes; that
resolves the doubt. A 429 counts as a refusal from any server: a rate limiter answers before the request is handled, and
a ban of an hour would otherwise end every reply as doubtful.
"""

from holdfast.kernel.vendor_error import Answer, Meaning, only

ANSWERS = (
    Answer(
        statuses=only(429), meaning=Meaning.NOT_SENT, says="the rate is limited, by Discord or a server in front of it"
    ),
    Answer(statuses=(range(500, 600),), meaning=Meaning.DOUBTFUL, says="a server or a gateway failed"),
    Answer(statuses=only(401), own=True, meaning=Meaning.NOT_SENT, says="Discord rejects the token"),
    Answer(statuses=only(408), meaning=Meaning.DOUBTFUL, says="a server gave up waiting"),
    Answer(statuses=(range(400, 500),), own=True, meaning=Meaning.DECLINED, says="Discord refused it"),
    Answer(
        statuses=(range(100, 500),),
        meaning=Meaning.DOUBTFUL,
        says="a server in front of Discord's API answered; redirects are not followed",
    ),
)
