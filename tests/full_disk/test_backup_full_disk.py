"""A backup, a restore, a repair and an export on a full disk say `store_full`, and leave nothing half made."""

import pytest

from holdfast.kernel.errors import HoldfastError
from holdfast.runtime import backups, doctor
from holdfast.runtime.app import open_runtime
from tests.full_disk.test_full_disk import agents, fill, mounted

pytestmark = [pytest.mark.full_disk, pytest.mark.timeout(300)]
FREE_KIB = (0, 4, 16, 64, 200, 400, 500)
STORE = "holdfast.db"


def silent(*_):
    pass


async def filled(folder):
    async with await open_runtime(folder, agents=agents()) as runtime:
        await runtime.ask("c", "My cat is called Byron.")
    return folder


def attempts(folder, whole, disk):
    return {
        "backup": lambda: backups.back_up(folder, disk / "backup", silent),
        "archive": lambda: backups.back_up(folder, disk / "backup.tar", silent),
        "restore": lambda: backups.restore(whole, disk / "new", silent, moved=False),
        "copy": lambda: doctor.repair_copy(folder, disk / "copy", silent),
    }


@pytest.mark.parametrize("name", ["backup", "archive", "restore", "copy"])
async def test_a_full_disk_is_named_and_the_next_attempt_succeeds(tmp_path, name):
    folder = await filled(tmp_path / "data")
    backups.back_up(folder, tmp_path / "whole", silent)
    met = []
    for free_kib in FREE_KIB:
        with mounted(tmp_path / "disk") as disk:
            fill(disk, free_kib)
            attempt = attempts(folder, tmp_path / "whole", disk)[name]
            try:
                attempt()
            except HoldfastError as error:
                met.append(error.code)
                left = {path.name for path in disk.rglob("*")} - {"ballast", "new", "holdfast.lock", "holdfast.pid"}
                assert left == set(), left
                (disk / "ballast").unlink()
                attempt()
    assert len(met) >= 3
    assert set(met) == {"store_full"}
