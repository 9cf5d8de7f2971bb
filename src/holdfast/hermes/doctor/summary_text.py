"""How Hermes marks the summary of a compression in the text of a message."""

import re

MARKS = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:", "[PRIOR CONTEXT")
# A summary may be merged into the first message that was carried: behind it (0.14), or in front of it (0.19).
MERGED_BEHIND = re.compile(r"--- END OF CONTEXT SUMMARY[^\n]*---\s*(?P<words>.*)\Z", re.DOTALL)
MERGED_BEFORE = re.compile(r"\A\[PRIOR CONTEXT[^\n]*\]\n(?P<words>.*?)\s*\[END OF PRIOR CONTEXT", re.DOTALL)


def is_summary(text: str) -> bool:
    """Whether the message is a summary, or a message into which a summary was merged."""
    return text.lstrip().startswith(MARKS)


def words_beside_summary(text: str) -> str:
    """The words of the message into which a summary was merged; empty for a summary alone."""
    found = MERGED_BEFORE.search(text.lstrip()) or MERGED_BEHIND.search(text)
    return found["words"].strip() if found else ""
