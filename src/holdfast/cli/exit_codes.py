"""The exit codes of every command: one table, which `holdfast --help` and the reference page print.

People script against these numbers, so a number never changes its meaning, and a command ends with no other one.
"""

from collections.abc import Mapping

OK, WRONG, USAGE, CONTRADICTION, AWAITING, INTERNAL, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 70, 130, 143

EXIT_CODES: Mapping[int, str] = {
    OK: "success",
    WRONG: "an error that you can fix, or a state that needs you",
    USAGE: "wrong usage, or a question without a terminal to answer it",
    CONTRADICTION: "an audit, or the doctor of a Hermes home, found a contradiction",
    AWAITING: "a tool call waits for approval",
    INTERNAL: "a bug in Holdfast, or a broken store",
    INTERRUPTED: "interrupted with Ctrl-C",
    TERMINATED: "terminated by SIGTERM",
}
TOLD = f"Exit codes: {'; '.join(f'{code} {what}' for code, what in EXIT_CODES.items())}."
