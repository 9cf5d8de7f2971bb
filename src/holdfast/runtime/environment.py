"""What the providers, channels and MCP servers of one process are made with."""

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
    config_folder: Path | None = None  # of holdfast.toml; relative paths of secrets begin there
    variables: Mapping[str, str] = field(default_factory=variables, repr=False)
    key: bytes | None = field(default=None, repr=False)  # of the databases in the folder, where it is encrypted
    hidden: tuple[Path, ...] = ()  # files beside the folder that no MCP program may reach: configuration, secrets
    umask: int | None = None  # of MCP programs; None: that of the process
