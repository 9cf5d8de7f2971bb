"""The interpreter of the real Hermes: `make test-hermes` makes its environment, with the clients that Hermes pins."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def hermes_python() -> Path:
    python = Path(os.environ.get("HOLDFAST_HERMES_PYTHON") or ROOT / ".venv-hermes" / "bin" / "python")
    if not python.exists():
        pytest.skip(f"there is no Hermes at {python}; run `make test-hermes`")
    return python
