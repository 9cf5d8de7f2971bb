"""Which files are mutated: the decisions (`core`) and the store verbs."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src/holdfast/core", "src/holdfast/stores/verbs")


def is_mutated(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / folder) for folder in FOLDERS) and path.name != "__init__.py"


def mutated_files() -> list[Path]:
    found = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    return sorted(file for file in found if is_mutated(file))
