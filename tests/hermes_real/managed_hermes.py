"""Runs inside the environment of Hermes: its own memory manager with our plugin, as the end of each turn uses it.

Each line of stdin names the session of one turn. The manager queues the turn and goes on, so that boundaries, switches
and later turns overtake it. A line on stdout acknowledges a turn: `sync_turn` has returned.
"""

import functools
import os
import sys


def acknowledged(sync_turn):
    """`sync_turn` as the plugin has it, followed by an acknowledgement in one write."""

    @functools.wraps(sync_turn)
    def synced(user, assistant, *, session_id="", messages=None):
        sync_turn(user, assistant, session_id=session_id, messages=messages)
        os.write(1, f"{session_id}\t{user}\n".encode())

    return synced


def main():
    home, life = sys.argv[1:]
    from agent.memory_manager import MemoryManager  # type: ignore[import-not-found]
    from plugins.memory import load_memory_provider  # type: ignore[import-not-found]

    provider = load_memory_provider("holdfast")
    provider.sync_turn = acknowledged(provider.sync_turn)
    manager = MemoryManager()
    manager.add_provider(provider)
    manager.initialize_all(session_id="S0", platform="cli", hermes_home=home, agent_context="primary")
    messages = []  # one live list, as Hermes passes it
    for n, line in enumerate(sys.stdin):
        session = line.strip()
        text = f"{life}.{n} said in {session}"
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
        manager.on_turn_start(n, text)
        if n % 4 == 0:
            manager.prefetch_all(text)
        manager.sync_all(text, f"answer to {life}.{n}", session_id=session, messages=messages)
        manager.queue_prefetch_all(text, session_id=session)
        if n % 3 == 0:  # a compaction in place
            manager.on_pre_compress(messages)
            manager.on_session_end(messages)
            manager.on_session_switch(session, parent_session_id=session, reason="compression")
            messages.clear()
        if n % 5 == 0:  # /new
            manager.commit_session_boundary_async(messages, new_session_id="S0", parent_session_id=session)
    os._exit(0)


if __name__ == "__main__":
    main()
