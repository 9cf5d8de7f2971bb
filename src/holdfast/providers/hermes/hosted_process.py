"""The process that hosts a provider of Hermes: started when it is needed, asked one question at a time."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.kernel.errors import ProviderFailed

HOST = Path(__file__).with_name("host.py")
ANSWER_BYTES_MAX = 16 << 20


class HostedProcess:
    def __init__(self, python: Path, provider: str, home: Path, environment: Mapping[str, str]) -> None:
        self._command = (str(python), "-B", str(HOST), provider, str(home))
        inherited = {name: value for name, value in environment.items() if not name.startswith(("PYTHON", "HOLDFAST"))}
        self._environment = {**inherited, "HERMES_HOME": str(home)}
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def ask(self, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer. Raises `ProviderFailed` if the process ends or takes too long; then it is killed."""
        async with self._lock:
            process = await self._running()
            try:
                async with asyncio.timeout(timeout_s):
                    return await _exchange(process, question)
            except TimeoutError as error:
                await self._kill()
                raise ProviderFailed(f"the provider did not return within {timeout_s:g} s") from error
            except (OSError, ValueError) as error:
                await self._kill()
                raise ProviderFailed(f"the process of the provider ended: {type(error).__name__}") from error
            except asyncio.CancelledError:
                await self._kill()  # its answer would be taken for that of the next question
                raise

    async def close(self) -> None:
        async with self._lock:
            await self._kill()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    env=self._environment,
                    limit=ANSWER_BYTES_MAX,
                )
            except OSError as error:
                raise ProviderFailed(f"the interpreter of Hermes does not start: {error.strerror}") from error
        return self._process

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _exchange(process: asyncio.subprocess.Process, question: Mapping[str, Any]) -> dict[str, Any]:
    if process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    process.stdin.write(json.dumps(question).encode() + b"\n")
    await process.stdin.drain()
    answer = json.loads(await process.stdout.readline())  # an empty line is no JSON: the process has ended
    if not isinstance(answer, dict):
        raise ValueError("the answer is not an object")  # noqa: TRY004 - the caller handles it like bad JSON
    return answer
