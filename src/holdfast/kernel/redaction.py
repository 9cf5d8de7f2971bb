"""Redaction: hides text that looks like a secret before it is logged or stored (security control 16).

Holdfast's own log lines contain ids and counts. Redaction covers text from elsewhere in an error: a vendor's client
that quotes a header, an address with a password. It prefers false positives.
"""

import re

HIDDEN = "[hidden]"
_SECRETS = re.compile(
    r"""
    (?P<label>
        \b (?: authorization | api[-_]?key | secret | password | passwd | token )
            ["']? \s* [:=] \s* ["']? (?: (?:bearer|basic) \s+ )?
      | \b (?: bearer | basic ) \s+
      )
    (?P<value> [^\s"',;&\]})]{8,} )
    | (?P<userinfo> (?<=://) [^\s/@:]* : [^\s/@]+ (?=@) )
    | (?P<shape>
        \b hf_[0-9a-f]{64} \b                                        # ours
      | (?<!\d) \d{6,12} : [A-Za-z0-9_-]{30,}                          # Telegram
      | \b xox[a-z]-[A-Za-z0-9-]{8,} | \b xapp-[A-Za-z0-9-]{8,}      # Slack
      | \b [A-Za-z0-9_-]{23,28} \. [A-Za-z0-9_-]{6,7} \. [A-Za-z0-9_-]{27,} \b   # Discord
      | \b sk-[A-Za-z0-9_-]{16,}                                     # OpenAI, Anthropic and their like
      )
    """,
    re.VERBOSE | re.IGNORECASE,
)


_WORDS = ("bearer", "basic ", "authorization", "key", "secret", "passw", "token", "hf_", "xox", "xapp-", "sk-", "@")
_UNNAMED = re.compile(r"\d:[\w-]{30}|\.[\w-]{6,7}\.[\w-]{27}")  # secrets without a label


def redacted(text: str) -> str:
    """The text with every apparent secret hidden; its label stays."""
    lower = text.lower()
    if not any(word in lower for word in _WORDS) and not _UNNAMED.search(text):
        return text  # the usual case; the full pattern costs more than writing the line
    return _SECRETS.sub(lambda found: f"{found['label'] or ''}{HIDDEN}", text)
