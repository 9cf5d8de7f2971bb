"""The image has the locked packages and nothing of the build, runs without rights, and says whether it is well.

`make hadolint` checks the form; this file checks what the form cannot show.
"""

import json
import re
from pathlib import Path

import pytest

from holdfast.cli.commands import PANELS

ROOT = Path(__file__).parents[1]
LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()
STEPS = [(word, rest) for line in LINES if line and not line.startswith("#") for word, _, rest in [line.partition(" ")]]
LAST = max(n for n, (word, _) in enumerate(STEPS) if word == "FROM")
IGNORED = [
    line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")
]


def told(word: str, steps: list[tuple[str, str]] = STEPS) -> list[str]:
    return [rest for one, rest in steps if one == word]


def test_it_is_built_in_one_stage_and_runs_in_another():
    first, last = told("FROM")
    assert first == f"{last} AS build"
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", last), "a version, and no `latest`"
    assert told("COPY", STEPS[LAST:]) == ["--from=build /opt/holdfast /opt/holdfast"]


def test_packages_are_installed_with_their_hashes_and_resolve_nothing():
    installs = [part for rest in told("RUN") for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 2
    assert all("--no-deps" in one for one in installs)
    locked, own = installs
    assert "--require-hashes -r requirements/image.txt" in locked
    assert "--no-build-isolation ." in own


def test_the_build_sees_only_what_it_copies():
    assert IGNORED[0] == "*"
    allowed = {line[1:] for line in IGNORED if line.startswith("!")}
    copied = {name for rest in told("COPY", STEPS[:LAST]) for name in rest.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    assert told("ADD") == []


def test_it_runs_as_a_user_without_rights_who_owns_only_the_data():
    steps = STEPS[LAST:]
    (user,) = told("USER", steps)
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user), "numbers, which Kubernetes can compare"
    assert all(f"--{kind} 10001" in told("RUN", steps)[0] for kind in ("uid", "gid"))
    words = [word for word, _ in steps]
    assert words.index("RUN") < words.index("USER") < words.index("ENTRYPOINT")
    assert told("VOLUME", steps) == ["/data"]
    assert "HOLDFAST_DATA=/data" in told("ENV", steps)[0]


def test_no_secret_is_part_of_it():
    assert not [rest for word, rest in STEPS if word in {"ENV", "ARG"} and re.search(r"(?i)token|secret|key", rest)]


@pytest.mark.parametrize("word", ["HEALTHCHECK", "ENTRYPOINT", "CMD"])
def test_its_commands_exist_and_need_no_shell(word):
    (rest,) = told(word)
    command = json.loads(rest[rest.index("[") :])
    known = {name for panel in PANELS.values() for name in panel}
    assert next(one for one in command if not one.startswith("-")) in known | {"holdfast"}
    if command[0] == "holdfast":
        assert set(command[1:]) <= known
