"""Runs inside the environment of Hermes: one memory provider of Hermes, driven by lines of JSON on stdin.

Each line names a call and its arguments; the answer is one line on stdout. The provider is loaded as Hermes loads it,
from config.yaml's home, and called directly, so that a test decides the order of the calls.
"""

import json
import os
import sys
import threading
import types
from pathlib import Path


def load(name):
    from plugins.memory import load_memory_provider  # type: ignore[import-not-found]

    provider = load_memory_provider(name)
    if provider is None:
        raise SystemExit(f"Hermes did not load the provider {name}")
    return provider


class Driven:
    def __init__(self, name, home):
        self.name, self.home = name, home
        self.provider = load(name)
        self.threads = []
        self.db = None

    def init(self, session, **about):
        self.provider.initialize(
            session, **{"hermes_home": self.home, "platform": "cli", "agent_context": "primary", **about}
        )

    def again(self):
        """Another agent of the same process."""
        self.provider = load(self.name)

    def cd(self, folder):
        os.chdir(folder)

    def sync(self, session, user, assistant="ok", **_):
        self.provider.sync_turn(user, assistant, session_id=session)

    def switch(self, session, **how):
        self.provider.on_session_switch(session, **how)

    def say(self, session, user, assistant="ok"):
        """A turn as Hermes ends it: its rows in state.db, then the provider."""
        database = self.database()
        database.ensure_session(session, source="cli")
        for role, text in (("user", user), ("assistant", assistant)):
            database.append_message(session, role, text)
        self.provider.sync_turn(user, assistant, session_id=session)

    def undo(self, session, count=1):
        """`/undo` in the terminal: Hermes' own code, on a conversation of this session."""
        from cli import HermesCLI  # type: ignore[import-not-found]

        database, manager = self.database(), self.manager()
        terminal = types.SimpleNamespace(
            conversation_history=database.get_messages_as_conversation(session),
            session_id=session,
            agent=types.SimpleNamespace(_memory_manager=manager),
            _session_db=database,
            _undo_content_to_text=HermesCLI._undo_content_to_text,
        )
        HermesCLI.undo_last(terminal, count, prefill=False)
        return len(terminal.conversation_history)

    def undo_in_gateway(self, session, count=1):
        """`/undo` in a chat: the gateway calls no hook of a provider."""
        from gateway.session import SessionStore  # type: ignore[import-not-found]

        store = types.SimpleNamespace(_db=self.database(), _clear_dirty_transcript=lambda session: None)
        return SessionStore.rewind_session(store, session, count)["turns_undone"]

    def database(self):
        from hermes_state import SessionDB  # type: ignore[import-not-found]

        if self.db is None:
            self.db = SessionDB(Path(self.home) / "state.db")
        return self.db

    def manager(self):
        from agent.memory_manager import MemoryManager  # type: ignore[import-not-found]

        made = MemoryManager()
        made.add_provider(self.provider)
        return made

    def end(self):
        self.provider.on_session_end([])

    def shutdown(self):
        self.provider.shutdown()

    def queue_prefetch(self, query):
        self.provider.queue_prefetch(query, session_id="")

    def prefetch(self, query):
        return self.provider.prefetch(query)

    def ask_version_again(self):
        """Forget what Hermes' plugin keeps for the life of a process, by the address of the server."""
        sys.modules[type(self.provider).__module__]._append_capability_cache.clear()

    def idle(self):
        """Wait until the threads that the provider started have nothing to do."""
        queue = getattr(self.provider, "_retain_queue", None)
        if queue is not None:
            queue.join()
        for name in ("_sync_thread", "_init_thread", "_prefetch_thread"):
            thread = getattr(self.provider, name, None)
            if isinstance(thread, threading.Thread):
                thread.join(60)

    def init_done(self):
        """Wait for the session that Honcho's plugin prepares in a thread."""
        thread = getattr(self.provider, "_init_thread", None)
        if isinstance(thread, threading.Thread):
            thread.join(60)

    def in_thread(self, what, **arguments):
        """Call without waiting: the provider may block."""
        thread = threading.Thread(target=getattr(self, what), kwargs=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def join(self):
        for thread in self.threads:
            thread.join(60)


def main():
    name, home = sys.argv[1:]
    os.environ["HERMES_HOME"] = home
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Hermes prints does not disturb the answers
    driven = Driven(name, home)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        call = json.loads(line)
        result = getattr(driven, call.pop("call"))(**call)
        answers.write(json.dumps({"result": result}) + "\n")
        answers.flush()
    os._exit(0)  # as Hermes ends: without atexit


if __name__ == "__main__":
    main()
