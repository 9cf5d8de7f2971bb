"""The lock files promise the same install everywhere, and say nothing of where they were made.

Rules: D32, control 20.
"""

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BASE = ROOT / "requirements" / "base.txt"
DEV = ROOT / "requirements" / "dev.txt"
AUDIT = ROOT / "requirements" / "audit.txt"
BENCH = ROOT / "requirements" / "bench.txt"
BENCH_HERMES = ROOT / "requirements" / "bench-hermes.txt"
HERMES = {name: ROOT / "requirements" / f"{name}.txt" for name in ("hermes", "hermes-0.14", "hermes-0.15")}
BROWSER = ROOT / "requirements" / "browser.txt"
ENCRYPTION = ROOT / "requirements" / "encryption.txt"
DOCS = ROOT / "requirements" / "docs.txt"
IMAGE = ROOT / "requirements" / "image.txt"
INSTALLER = ROOT / "requirements" / "installer.txt"
LINE = re.compile(r"[a-z0-9.-]+==[\w.]+( ; [\w\s.'<>=!()]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")

# Queues, schedulers and lock services: work is claimed in the database.
SERVICES = {
    "aio-pika",
    "aiokafka",
    "apscheduler",
    "arq",
    "celery",
    "dramatiq",
    "etcd3",
    "kazoo",
    "kombu",
    "nats-py",
    "redis",
}


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE))


def names(requirements: list[str]) -> set[str]:
    found = (re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements)
    return {re.sub(r"[._-]+", "-", name) for name in found}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "lock",
    [BASE, DEV, AUDIT, BENCH, BENCH_HERMES, *HERMES.values(), BROWSER, ENCRYPTION, INSTALLER, DOCS, IMAGE],
    ids=lambda lock: lock.stem,
)
def test_a_lock_holds_names_versions_and_hashes_and_nothing_else(lock):
    odd = [line for line in lock.read_text(encoding="utf-8").splitlines() if not LINE.fullmatch(line)]
    assert odd == []


def test_the_base_lock_runs_and_builds_the_package(project):
    assert names(project["project"]["dependencies"] + project["build-system"]["requires"]) <= set(pins(BASE))


def test_the_database_is_the_only_service_that_is_needed():
    assert not SERVICES & set(pins(BASE))


def test_the_dev_lock_holds_the_tools_and_every_extra(project):
    extras = [name for extra in project["project"]["optional-dependencies"].values() for name in extra]
    assert names(project["dependency-groups"]["dev"] + extras) <= set(pins(DEV))


def test_the_audit_lock_holds_the_auditor(project):
    assert names(project["dependency-groups"]["audit"]) <= set(pins(AUDIT))


def test_the_docs_lock_holds_what_makes_the_site_and_lints_the_image(project):
    groups = project["dependency-groups"]
    assert names(groups["docs"] + groups["hadolint"]) <= set(pins(DOCS))


def test_the_image_has_every_extra_in_the_version_that_is_tested(project):
    extras = [name for extra in project["project"]["optional-dependencies"].values() for name in extra]
    assert names(project["project"]["dependencies"] + project["build-system"]["requires"] + extras) <= set(pins(IMAGE))
    assert pins(IMAGE).items() <= pins(DEV).items()


def test_the_installer_lock_holds_uv_alone():
    assert set(pins(INSTALLER)) == {"uv"}


def test_the_bench_locks_hold_the_peers(project):
    assert names(project["dependency-groups"]["bench"]) <= set(pins(BENCH))
    assert names(project["dependency-groups"]["bench-hermes"]) <= set(pins(BENCH_HERMES))


@pytest.mark.parametrize("name", HERMES)
def test_each_lock_of_hermes_holds_the_release_that_is_asked_for(project, name):
    (wanted,) = project["dependency-groups"][name.replace(".", "-")]
    assert pins(HERMES[name])["hermes-agent"] == wanted.partition("==")[2]


def test_the_browser_lock_holds_what_drives_chromium(project):
    assert names(project["dependency-groups"]["browser"]) <= set(pins(BROWSER))


def test_the_encryption_lock_holds_the_library_that_takes_the_place_of_apsw_and_not_apsw(project):
    assert names(project["dependency-groups"]["encryption"]) <= set(pins(ENCRYPTION))
    assert "apsw" not in pins(ENCRYPTION)


def test_what_is_tested_is_what_is_run():
    assert pins(BASE).items() <= pins(DEV).items()


def test_the_locked_build_backend_is_the_one_that_builds(project):
    assert project["dependency-groups"]["build"] == project["build-system"]["requires"]


def test_a_package_with_the_locked_hash_is_installed(tmp_path):
    """As `make install` does it. An altered one is refused: control 20, tests/security/test_controls.py."""
    wheel = tmp_path / "pearl-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("pearl.py", "price = 1")
        made.writestr("pearl-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pearl\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        made.writestr("pearl-1.0.dist-info/WHEEL", tags)
        made.writestr("pearl-1.0.dist-info/RECORD", "")
    locked = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "lock.txt").write_text(f"pearl==1.0 --hash=sha256:{locked}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install"] if find_spec("pip") else ["uv", "pip", "install"]
    where = ["--no-index", "--find-links", str(tmp_path), "--target", str(tmp_path / "here")]
    command = [*pip, *where, "--require-hashes", "-r", str(tmp_path / "lock.txt")]
    subprocess.run(command, capture_output=True, check=True)
    assert (tmp_path / "here" / "pearl.py").exists()
