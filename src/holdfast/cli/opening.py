"""One use of a command: the values of its shared options, and the data folder that it opens with them."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from holdfast.audit.action import BY_NAME
from holdfast.audit.actor import record_refusal
from holdfast.cli.command import home_of
from holdfast.cli.logs import logging_to, to_file
from holdfast.config import FILE, Config, Reading, faultless, load_reading
from holdfast.config.secrets import secret_files, secret_variables
from holdfast.kernel.errors import HoldfastError, Remedy, StoreBroken, StoreOwned, StorePathInvalid
from holdfast.kernel.hardening import conceal
from holdfast.runtime import app
from holdfast.runtime.runtime import Runtime
from holdfast.store.location import postgres_address

NOTHING_YET = "Nothing is here yet: run `holdfast up` to begin, or name another folder with --data."


@dataclass(frozen=True)
class Invocation:
    data: Path | None
    config: Path | None
    as_json: bool

    @cached_property
    def folder(self) -> Path:
        if self.data is not None:
            postgres_address(self.data)  # refuses an address
            return home_of(self.data)
        from platformdirs import user_data_path

        return user_data_path("holdfast", appauthor=False)

    @property
    def config_file(self) -> Path | None:
        """The file of `--config`, or the one in the data folder; None if there is none."""
        file = self.folder / FILE
        return self.config or (file if file.exists() else None)

    @cached_property
    def reading(self) -> Reading:
        """The configuration without its wrong settings, and the errors. Raises `ConfigInvalid` if it is not TOML."""
        return load_reading(self.config_file)

    @cached_property
    def settings(self) -> Config:
        """The configuration. Raises its first error, with the others in `others`."""
        read = faultless(self.reading)
        conceal(secret_variables(read.agents or {}))
        return read

    @property
    def stored(self) -> Path:
        """The data folder. Raises `StorePathInvalid` if it has no store."""
        folder = self.folder
        if folder.is_dir() and not app.has_store(folder):
            raise StorePathInvalid(f"{folder} contains no Holdfast data", path=str(folder), hint=NOTHING_YET)
        if not folder.exists():
            raise StorePathInvalid(f"the folder {folder} does not exist", path=str(folder), hint=NOTHING_YET)
        return folder

    @property
    def is_served(self) -> bool:
        return app.is_served(self.folder)

    @asynccontextmanager
    async def visiting(self, *, make: bool = False, act: str = "", on: str = "") -> AsyncIterator[Runtime]:
        """Open the store without serving it. A new store is created only with `make`.

        `act` names the privileged act that the command attempts, and `on` its subject: the audit trail records a
        refusal.
        """
        folder = self.folder if make else self.stored
        agents = app.make_agents(listed=self.settings.agents, lenient=True)
        async with await app.open_runtime(folder, agents=agents, serve=False) as runtime:
            try:
                yield runtime
            except HoldfastError as error:
                if act and error.remedy is Remedy.CORRECT:  # other errors do not refuse the act itself
                    await record_refusal(runtime.db, BY_NAME[act], on, error.code)
                raise

    @asynccontextmanager
    async def serving(
        self, detected: app.DetectedAgents, on_broken: Callable[[StoreBroken], None]
    ) -> AsyncIterator[Runtime]:
        """Open the store and run its loops and channels. Raises `StoreOwned` while another process serves it."""
        connect = self.settings.file.parent if self.settings.file is not None else self.folder
        async with await app.open_runtime(
            self.folder, agents=detected.agents, on_broken=on_broken, connect=connect, hidden=self._hidden
        ) as runtime:
            yield runtime

    @asynccontextmanager
    async def serving_or_visiting(self) -> AsyncIterator[tuple[Runtime, bool]]:
        """The runtime, and whether it serves. If another process serves the folder, that process also owns the log."""
        agents = (await app.detect_agents(self.settings.agents)).agents
        with ExitStack() as logging:
            logging.enter_context(logging_to(to_file(self.folder)))
            try:
                runtime, is_serving = await app.open_runtime(self.folder, agents=agents, hidden=self._hidden), True
            except StoreOwned:
                logging.close()
                runtime, is_serving = await app.open_runtime(self.folder, agents=agents, serve=False), False
            async with runtime:
                yield runtime, is_serving

    @property
    def _hidden(self) -> tuple[Path, ...]:
        """The configuration file and the files with its secrets."""
        file = self.settings.file
        return () if file is None else (file, *secret_files(file, self.settings.agents or {}))
