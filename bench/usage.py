"""What a process used: CPU of itself and its children, resident memory, and the bytes of a folder."""

import os
import resource
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """User and system time of this process and of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def cpu_of_tree_s(root: int) -> float:
    """User and system time of a running process, its children and those of them that have ended. Linux only."""
    stats = {int(path.name): _stat(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    wanted, found = {root}, 0.0
    while wanted:
        found += sum(stats[pid][1] for pid in wanted if pid in stats)
        wanted = {pid for pid, (parent, _) in stats.items() if parent in wanted}
    return found


def _stat(process: Path) -> tuple[int, float]:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # the process has ended since
        return 0, 0.0
    return int(fields[1]), sum(int(ticks) for ticks in fields[11:15]) / TICKS_PER_S


def resident_kb(pid: int | str = "self") -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(found for found in lines if found.startswith("VmRSS")).split()[1])


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def raise_file_limit() -> None:
    """Allow as many open files as the system does: one peer opens a connection per session and thread."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
