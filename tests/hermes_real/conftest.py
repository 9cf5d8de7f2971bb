"""The interpreters of real releases of Hermes: `make test-hermes` makes an environment for each.

The current release has the clients that Hermes pins. 0.14.0 and 0.15.2 are releases that always rotate; the first one
also leaves JSON transcripts. A variable names another interpreter: HOLDFAST_HERMES_PYTHON for the current release,
HOLDFAST_HERMES_PYTHON_0_14 and HOLDFAST_HERMES_PYTHON_0_15 for the old ones.
"""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD_RELEASES = ("0.14", "0.15")


def interpreter(release: str = "") -> Path:
    """The interpreter of the current release, or of an old one."""
    variable = f"HOLDFAST_HERMES_PYTHON_{release}".replace(".", "_").removesuffix("_")
    made = ROOT / f".venv-hermes-{release}".removesuffix("-") / "bin" / "python"
    python = Path(os.environ.get(variable) or made)
    if not python.exists():
        pytest.skip(f"there is no Hermes {release or 'of the current release'} at {python}; run `make test-hermes`")
    return python


@pytest.fixture(scope="session")
def hermes_python() -> Path:
    return interpreter()


@pytest.fixture(scope="session", params=OLD_RELEASES)
def old_python(request: pytest.FixtureRequest) -> Path:
    """A release that compresses by rotation, and writes a continuation row by row."""
    return interpreter(request.param)


@pytest.fixture(scope="session")
def python_0_14() -> Path:
    return interpreter("0.14")


@pytest.fixture(scope="session")
def python_0_15() -> Path:
    return interpreter("0.15")
