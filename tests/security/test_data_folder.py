"""The data folder is its owner's alone: checked at each start, made so where it can be, refused where it cannot."""

import os
import sys
from pathlib import Path

import pytest

from holdfast.kernel.errors import DataFolderForeign, DataFolderUnsafe
from holdfast.providers.honcho.migrate import MigrationLedger
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.support.processes import Up, spawn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")
NOBODY = 65534


def open_to_others(folder: Path) -> dict[str, str]:
    """The files in the folder that users other than its owner may access."""
    everything = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    modes = {str(path.relative_to(folder)): path.stat().st_mode & 0o7777 for path in everything}
    return {name: oct(mode) for name, mode in modes.items() if mode & 0o077}


async def used(folder: Path) -> None:
    """A folder that was talked in once."""
    policy = AgentPolicy(model={"name": "practice"})
    async with await open_runtime(folder, agents=make_agents(policy=policy)) as runtime:
        await runtime.ask("c", "My cat is called Byron.")
        assert {"holdfast.db-wal", "holdfast.pid"} <= set(os.listdir(folder))  # noqa: PTH208
        assert set(open_to_others(folder)) <= {"mcp/main.files", "mcp/main.files/script"}


async def test_what_is_made_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        await used(tmp_path / "data")
        MigrationLedger(tmp_path / "data" / "agents" / "main" / "honcho").mark("a")
    finally:
        os.umask(before)
    assert open_to_others(tmp_path / "data") == {}


async def test_an_existing_folder_is_tightened_at_start_and_that_is_said(tmp_path, capfd):
    """Finding 14: an existing data folder's modes were neither tightened nor reported."""
    data = tmp_path / "data"
    await used(data)
    (data / "holdfast.db.bak").write_text("a copy")
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert len(open_to_others(data)) > 5
    up = await Up.start(data)
    try:
        assert open_to_others(data) == {}
    finally:
        await up.stop()
    log = (data / "holdfast.log").read_text()
    assert log.count('"folder.tightened"') >= 5
    assert '"mode": "0644"' in log
    said = capfd.readouterr().err
    assert f"warning: others could use {data / 'holdfast.db'} (mode 0644); now only its owner can" in said


async def test_a_data_folder_of_another_user_is_refused_and_nothing_is_changed(tmp_path):
    data = tmp_path / "data"
    await used(data)
    (data / "holdfast.log").unlink(missing_ok=True)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    data.chmod(0o777)
    os.chown(data, NOBODY, NOBODY)
    process = await spawn(data)
    out, _ = await process.communicate()
    assert (process.returncode, b'"data_folder_foreign"' in out) == (1, True)
    with pytest.raises(DataFolderForeign, match="belongs to the user"):
        await open_runtime(data, agents=make_agents(), serve=False)
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    assert data.stat().st_mode & 0o777 == 0o777


async def test_a_file_of_another_user_is_refused(tmp_path):
    await used(tmp_path)
    os.chown(tmp_path / "holdfast.db", NOBODY, NOBODY)
    with pytest.raises(DataFolderForeign, match=r"holdfast\.db belongs to the user"):
        await used(tmp_path)


@pytest.mark.parametrize("name", ["holdfast.db", "token", "holdfast.log", "agents", "agents/main/local", "mcp"])
async def test_a_link_that_leads_out_of_the_folder_is_refused_and_nothing_is_changed(tmp_path, name):
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    (data / name).parent.mkdir(parents=True)
    data.chmod(0o755)
    (data / name).symlink_to(elsewhere)
    with pytest.raises(DataFolderUnsafe, match=f"{name} is a link that leads out"):
        await used(data)
    assert (elsewhere.exists(), data.stat().st_mode & 0o777) == (False, 0o755)


async def test_links_of_the_operator_are_left_alone(tmp_path):
    """A configuration and a file of secrets may be links, as a container's are; so may the data folder itself."""
    (tmp_path / "real").mkdir()
    (tmp_path / "outside").write_text("")
    data = tmp_path / "data"
    data.symlink_to(tmp_path / "real")
    (tmp_path / "outside").chmod(0o644)
    for name in ("holdfast.toml", "telegram.secret"):
        (data / name).symlink_to(tmp_path / "outside")
    await used(data)
    assert ((tmp_path / "real").stat().st_mode & 0o777, (tmp_path / "outside").stat().st_mode & 0o777) == (0o700, 0o644)


async def test_a_folder_that_holds_other_things_is_not_closed_to_others_unasked(tmp_path):
    """`--data /etc` must not take /etc from everybody else."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "passwd").write_text("")
    shared.chmod(0o755)
    with pytest.raises(DataFolderUnsafe, match="others may use it, and it holds more than Holdfast's data"):
        await used(shared)
    assert (shared.stat().st_mode & 0o777, [one.name for one in shared.iterdir()]) == (0o755, ["passwd"])
    shared.chmod(0o700)
    await used(shared)
    assert (shared / "passwd").stat().st_mode & 0o077 == 0


async def test_the_place_of_an_mcp_program_is_not_searched(tmp_path):
    """What a program keeps there is its own; no other user reaches it through the folders above."""
    own = tmp_path / "mcp" / "main.files"
    own.mkdir(parents=True)
    (own / "bin").symlink_to("/usr/bin")
    (own / "script").write_text("")
    (own / "script").chmod(0o755)
    (tmp_path / "mcp").chmod(0o755)
    await used(tmp_path)
    assert ((tmp_path / "mcp").stat().st_mode & 0o777, (own / "script").stat().st_mode & 0o777) == (0o700, 0o755)
