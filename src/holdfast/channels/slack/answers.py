"""What each HTTP status of a call to Slack proves.

Slack's own answers are JSON with `ok`; its refusals have `"ok": false` and an error code in `error`, mostly with status
200. Error codes about limits and tokens mean that nothing was posted and the call is retried; after `fatal_error`,
`internal_error` and `service_unavailable` the outcome is unknown. A 429 counts as a refusal from any server: a rate
limiter answers before the request is handled. A post whose outcome is unknown is searched for in the conversation
before it is sent again.
"""

from holdfast.kernel.vendor_error import Answer, Meaning, only

ANSWERS = (
    Answer(only(429), Meaning.NOT_SENT, "the rate is limited, by Slack or a server in front of it"),
    Answer((range(500, 600),), Meaning.DOUBTFUL, "a server or a gateway failed"),
    Answer(
        (range(200, 500),),
        Meaning.DECLINED,
        "Slack refused it; error codes about limits and tokens mean not sent, those about failures doubtful",
        own=True,
    ),
    Answer(
        (range(100, 500),), Meaning.DOUBTFUL, "a server in front of Slack's API answered, or the answer cannot be read"
    ),
)
