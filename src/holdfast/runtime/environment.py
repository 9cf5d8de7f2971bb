"""The environment in which one process creates providers, channels and MCP servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.hardening import variables
from holdfast.kernel.tasks import Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    clock: Clock
    entropy: Entropy
    tasks: Tasks
    folder: Path | None = None  # the data folder; None on PostgreSQL, which several machines share
    config_folder: Path | None = None  # the folder of holdfast.toml; relative paths of secrets start here
    variables: Mapping[str, str] = field(default_factory=variables, repr=False)
    key: bytes | None = field(default=None, repr=False)  # of the databases in an encrypted folder
    hidden: tuple[Path, ...] = ()  # files outside the folder that no MCP program may access: configuration, secrets
    umask: int | None = None  # of MCP programs; None means the umask of this process
