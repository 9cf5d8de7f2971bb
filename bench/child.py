"""A child process: does one task and writes its figures to a file.

    python -m bench.child RESULT TASK

Contestants may print what they like: the figures go to the file RESULT. TASK is JSON.
"""

import asyncio
import json
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from bench.usage import raise_file_limit
from bench.work import Conversations, Load, Task, drive


async def run(task: Task) -> dict[str, Any]:
    module, _, name = task.contestant.partition(":")
    made = getattr(import_module(module), name)
    if isinstance(made, type) and issubclass(made, Conversations):
        return await drive(made(task), task)
    found: dict[str, Any] = await made(task)
    return found


def task_from(text: str) -> Task:
    fields = json.loads(text)
    return Task(**{**fields, "folder": Path(fields["folder"]), "load": Load(**fields["load"])})


def main() -> None:
    raise_file_limit()
    result, text = sys.argv[1:]
    if text.startswith("versions "):
        found = {name: metadata.version(name) for name in text.split()[1:]}
    else:
        found = asyncio.run(run(task_from(text)))
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
