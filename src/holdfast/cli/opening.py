"""Opens the data folder for a command: beside the process that serves it, or as the serving process."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from holdfast.audit.action import BY_NAME
from holdfast.cli.logs import logging_to, to_file
from holdfast.config import FILE, Config, load_config
from holdfast.config.secrets import secret_files, secret_variables
from holdfast.kernel.errors import HoldfastError, InvalidInput, Remedy, StoreBroken, StoreOwned, StorePathInvalid
from holdfast.kernel.hardening import conceal
from holdfast.runtime.app import DetectedAgents, check_folder, detect_agents, has_store, make_agents, open_runtime
from holdfast.runtime.runtime import Runtime


def folder_of(data: Path | None) -> Path:
    if data is not None:
        check_folder(data)
        return home_of(data)
    from platformdirs import user_data_path

    return user_data_path("holdfast", appauthor=False)


def home_of(path: Path) -> Path:
    """The path with `~` expanded. Raises `InvalidInput` for an unknown home folder."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise InvalidInput(f"{path}: the home folder is unknown; use an absolute path") from error


def config_of(file: Path | None, folder: Path) -> Config:
    """The configuration of `--config`, or the one in the data folder."""
    if file is None and (folder / FILE).exists():
        file = folder / FILE
    read = load_config(file)
    conceal(secret_variables(read.agents or {}))
    return read


@asynccontextmanager
async def visiting(
    data: Path | None, config: Path | None = None, *, make: bool = False, act: str = "", on: str = ""
) -> AsyncIterator[Runtime]:
    """Open the store without serving it. A new store is created only with `make`.

    `act` names the privileged act that the command attempts, and `on` its subject: the audit trail records a refusal.
    """
    folder = folder_of(data)
    if not make and folder.is_dir() and not has_store(folder):
        raise StorePathInvalid(f"{folder} contains no Holdfast data", path=str(folder))
    if not make and not folder.exists():
        raise StorePathInvalid(f"the folder {folder} does not exist", path=str(folder))
    agents = make_agents(listed=config_of(config, folder).agents, lenient=True)
    async with await open_runtime(folder, agents=agents, serve=False) as runtime:
        try:
            yield runtime
        except HoldfastError as error:
            if act and error.remedy is Remedy.CORRECT:  # other errors do not refuse the act itself
                await runtime.actions.refuse(BY_NAME[act], on, error.code)
            raise


@asynccontextmanager
async def serving(
    folder: Path, config: Config, crew: DetectedAgents, on_broken: Callable[[StoreBroken], None] | None = None
) -> AsyncIterator[Runtime]:
    """Open the store and run its loops and channels. Raises `StoreOwned` while another process serves it."""
    connect = config.file.parent if config.file is not None else folder
    runtime = await open_runtime(
        folder, agents=crew.agents, on_broken=on_broken, connect=connect, hidden=_hidden(config)
    )
    async with runtime:
        yield runtime


def _hidden(config: Config) -> tuple[Path, ...]:
    """The configuration file and the files with its secrets."""
    return () if config.file is None else (config.file, *secret_files(config.file, config.agents or {}))


@asynccontextmanager
async def serving_or_visiting(folder: Path, config: Config) -> AsyncIterator[tuple[Runtime, bool]]:
    """The runtime, and whether it serves. If another process serves the folder, that process also owns the log."""
    agents = (await detect_agents(config.agents)).agents
    with ExitStack() as logging:
        logging.enter_context(logging_to(to_file(folder)))
        try:
            runtime, is_serving = await open_runtime(folder, agents=agents, hidden=_hidden(config)), True
        except StoreOwned:
            logging.close()
            runtime, is_serving = await open_runtime(folder, agents=agents, serve=False), False
        async with runtime:
            yield runtime, is_serving
