"""A process that stands for Hermes: for each line of stdin it writes one turn and acknowledges it on stdout."""

import sys

from holdfast.hermes.plugin import HoldfastMemory


def main() -> None:
    home, life = sys.argv[1:]
    memory = HoldfastMemory()
    memory.initialize("S0", hermes_home=home, platform="cli", agent_context="primary")
    for n, line in enumerate(sys.stdin):
        session, text = line.strip(), f"{life}.{n} said in {line.strip()}"
        memory.sync_turn(text, f"answer to {life}.{n}", session_id=session)
        sys.stdout.write(f"{session}\t{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
