"""What each status of a call to Slack proves.

Slack's own answers are JSON with `ok`; its refusals have `"ok": false` and a word in `error`, mostly under status 200.
Among its words, those about limits and tokens mean that nothing was posted and that it is tried again; `fatal_error`,
`internal_error` and `service_unavailable` leave it open. A 429 is taken for a refusal whatever it comes from: a limiter
answers before anything is handled. What may have been posted is looked for in the conversation before it is sent again.
"""

from holdfast.kernel.status_table import Answer, Meaning, only

ANSWERS = (
    Answer(statuses=only(429), meaning=Meaning.NOT_SENT, says="the rate is limited, by Slack or before it"),
    Answer(statuses=(range(500, 600),), meaning=Meaning.DOUBTFUL, says="a server or a gateway failed"),
    Answer(
        statuses=(range(200, 500),),
        own=True,
        meaning=Meaning.DECLINED,
        says="Slack refused it; its words about limits and tokens mean not sent, those about failures doubtful",
    ),
    Answer(
        statuses=(range(100, 500),),
        meaning=Meaning.DOUBTFUL,
        says="something before Slack's API answered, or its answer cannot be read",
    ),
)
