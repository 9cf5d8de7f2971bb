"""What each HTTP status of a sent message proves.

Telegram's own refusals are JSON with `"ok": false`, an `error_code` and a `description`. Telegram has no nonces and
shows bots no history, so a message whose outcome is unknown is resent once and recorded as a possible duplicate.
"""

from holdfast.kernel.vendor_error import Answer, Meaning, only

ANSWERS = (
    Answer(statuses=(range(500, 600),), meaning=Meaning.DOUBTFUL, says="a server or a gateway failed"),
    Answer(statuses=only(429), own=True, meaning=Meaning.NOT_SENT, says="Telegram asks to wait"),
    Answer(statuses=only(401, 404), own=True, meaning=Meaning.NOT_SENT, says="Telegram does not know this bot"),
    Answer(statuses=only(409), own=True, meaning=Meaning.NOT_SENT, says="another process polls, or a webhook is set"),
    Answer(statuses=only(400, 403, 413), own=True, meaning=Meaning.DECLINED, says="Telegram refused it"),
    Answer(
        statuses=(range(400, 500),),
        own=True,
        meaning=Meaning.NOT_SENT,
        says="Telegram refused it with an undocumented status",
    ),
    Answer(
        statuses=(range(100, 500),),
        meaning=Meaning.DOUBTFUL,
        says="a server in front of Telegram answered, or the answer cannot be read",
    ),
)
