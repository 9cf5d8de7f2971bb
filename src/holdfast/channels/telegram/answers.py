"""What each HTTP status of a sent message proves.

Telegram's own refusals are JSON with `"ok": false`, an `error_code` and a `description`. Telegram has no nonces and
shows bots no history, so a message whose outcome is unknown is resent once and recorded as a possible duplicate.
"""

from holdfast.kernel.vendor_error import Answer, Meaning, only

ANSWERS = (
    Answer((range(500, 600),), Meaning.DOUBTFUL, "a server or a gateway failed"),
    Answer(only(429), Meaning.NOT_SENT, "Telegram asks to wait", own=True),
    Answer(only(401, 404), Meaning.NOT_SENT, "Telegram does not know this bot", own=True),
    Answer(only(409), Meaning.NOT_SENT, "another process polls, or a webhook is set", own=True),
    Answer(only(400, 403, 413), Meaning.DECLINED, "Telegram refused it", own=True),
    Answer((range(400, 500),), Meaning.NOT_SENT, "Telegram refused it with an undocumented status", own=True),
    Answer(
        (range(100, 500),), Meaning.DOUBTFUL, "a server in front of Telegram answered, or the answer cannot be read"
    ),
)
