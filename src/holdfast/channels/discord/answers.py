"""What each HTTP status of a message to Discord proves.

Discord's own refusals are JSON with a `code`; any other answer comes from a server in front of its API. A message whose
outcome is unknown is sent once more with the same enforced nonce, which Discord remembers for some minutes; that
resolves the doubt. A 429 counts as a refusal from any server: a rate limiter answers before the request is handled, and
a ban of an hour would otherwise end every reply as doubtful.
"""

from holdfast.kernel.vendor_error import Answer, Meaning, only

ANSWERS = (
    Answer(only(429), Meaning.NOT_SENT, "the rate is limited, by Discord or a server in front of it"),
    Answer((range(500, 600),), Meaning.DOUBTFUL, "a server or a gateway failed"),
    Answer(only(401), Meaning.NOT_SENT, "Discord rejects the token", own=True),
    Answer(only(408), Meaning.DOUBTFUL, "a server gave up waiting"),
    Answer((range(400, 500),), Meaning.DECLINED, "Discord refused it", own=True),
    Answer(
        (range(100, 500),), Meaning.DOUBTFUL, "a server in front of Discord's API answered; redirects are not followed"
    ),
)
