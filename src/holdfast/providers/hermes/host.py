"""Runs with the interpreter of Hermes: hosts one memory provider, and answers one line of JSON for each line it reads.

This file uses the standard library and Hermes alone. A parcel gets an instance of its own, which is shut down before
the answer: `shutdown` is when a provider sends what it buffered. A warning or error that the provider logs meanwhile is
part of the answer, because providers swallow the errors of their services.
"""

import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

PREFIXES = ("plugins.memory", "_hermes_user_memory")


class ProviderWarnings(logging.Handler):
    """The warnings of the provider since they were last taken."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(PREFIXES):
            self._seen.append(record.getMessage()[:500])

    def take(self) -> list[str]:
        seen, self._seen = self._seen, []
        return seen


class ProviderHost:
    def __init__(self, name: str, home: str) -> None:
        self._name, self._home = name, home
        self._warnings = ProviderWarnings()
        logging.getLogger().addHandler(self._warnings)

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        self._warnings.take()
        provider = self._load()
        if provider is None:
            return {"error": f"Hermes does not load the provider {self._name}", "begun": False}
        begun = False
        try:
            about = {"hermes_home": self._home, "agent_context": "primary", **question.get("about", {})}
            provider.initialize(question.get("session", ""), **about)
            begun = True
            result = self._act(provider, question)
            provider.shutdown()
        except Exception as error:  # noqa: BLE001 - a provider is somebody else's code: what it did is uncertain
            return {"error": f"{type(error).__name__}: {error}"[:500], "begun": begun}
        return {"result": result, "warnings": self._warnings.take()}

    def _act(self, provider: Any, question: Mapping[str, Any]) -> str:  # noqa: ANN401 - of Hermes
        session = question.get("session", "")
        for user, assistant in question.get("turns", ()):
            provider.sync_turn(user, assistant, session_id=session)
        note = question.get("note")
        if note is not None:
            provider.on_memory_write(note["op"], note["target"], note["text"], metadata={"old_text": note["old"]})
        return str(provider.prefetch(question["query"]) or "") if "query" in question else ""

    def _load(self) -> Any:  # noqa: ANN401 - of Hermes
        from plugins.memory import load_memory_provider  # type: ignore[import-not-found]  # noqa: PLC0415

        provider = load_memory_provider(self._name)
        return provider if provider is not None and provider.is_available() else None


def main() -> None:
    name, home = sys.argv[1:]
    os.environ["HERMES_HOME"] = home
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a provider prints is no answer
    host = ProviderHost(name, home)
    for line in sys.stdin:
        answers.write(json.dumps(host.answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
