"""Which files are mutated: those that decide and those that store (tools/tree.py)."""

from pathlib import Path

from tools.tree import SRC, is_pure

ROOT = Path(__file__).parents[2]


def is_mutated(path: Path) -> bool:
    return path.is_relative_to(SRC) and is_pure(path) and path.name != "__init__.py"


def mutated_files() -> list[Path]:
    return sorted(file for file in SRC.rglob("*.py") if is_mutated(file))
