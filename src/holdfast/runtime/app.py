"""The application: opens a store and creates the concrete components around it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.audit.actor import acting
from holdfast.inbox.channels import Channels
from holdfast.kernel import log
from holdfast.kernel.errors import ConfigInvalid, InvalidInput, StoreBroken, StoreOwned, StorePathInvalid
from holdfast.kernel.files import unwritable
from holdfast.kernel.hardening import umask_before, variables
from holdfast.kernel.ids import AgentName
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.kernel.notifier import Notifier
from holdfast.kernel.ports import Entropy
from holdfast.models.choose import make_models
from holdfast.models.detect import detect_model
from holdfast.models.settings import ModelSettings
from holdfast.runtime.assembly import assemble
from holdfast.runtime.equipment import Equipment
from holdfast.runtime.plugins import Environment, make_channels
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.tool_factory import make_memory, silent_notes, with_servers
from holdfast.store.data_folder import check_owner, make_private
from holdfast.store.encryption.changing import Changed, change_key
from holdfast.store.encryption.marker import KeySource, key_files, key_of
from holdfast.store.location import postgres_address
from holdfast.store.ports import Database, Ports
from holdfast.store.sqlite.migrate import is_migrated
from holdfast.store.sqlite.owner import OwnerLock
from holdfast.store.sqlite.writer import ThreadedDatabase
from holdfast.store.upkeep_sql import load_secret
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.model import Model
from holdfast.turns.policy import AgentPolicy

DATABASE = "holdfast.db"


def make_agents(
    *,
    model: Model | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    policy: AgentPolicy | None = None,
    listed: Mapping[str, AgentPolicy] | None = None,
    found: ModelSettings | None = None,
    lenient: bool = False,
) -> Agents:
    """Agents that share tools. With `listed`, only those names exist.

    Each uses `model`, else the model its policy names, else `found`, else the practice model. With `lenient`, a model
    that cannot be created raises when it is called, not here; commands that run no turns use it.
    """
    if model is not None and not callable(getattr(model, "ask", None)):
        what = f"model is {model!r}, and not an object that can be asked"
        raise InvalidInput(f'{what}; one by name goes into the policy: AgentPolicy(model={{"name": "openai:..."}})')
    tasks = AsyncTasks()
    box = ToolBox(tasks)
    for tool in tools:
        box.add(tool, idempotent=getattr(tool, "idempotent", False))

    def agent(chosen: AgentPolicy, where: str) -> Agent:
        answers = summarises = model
        if answers is None or summarises is None:
            answers, summarises = make_models(chosen, variables(), tasks, found=found, where=where, lenient=lenient)
        return Agent(policy=chosen, model=answers, summariser=summarises, tools=box)

    if listed is None:
        return Agents(agent(policy or AgentPolicy(), "model"))
    return Agents(None, {AgentName(name): agent(one, f"agents.{name}.model") for name, one in listed.items()})


@dataclass(frozen=True, slots=True)
class DetectedAgents:
    """The agents, and one sentence that names the model that answers for them."""

    agents: Agents
    sentence: str
    notes: tuple[str, ...] = ()  # warnings for the operator


async def detect_agents(listed: Mapping[str, AgentPolicy] | None) -> DetectedAgents:
    """Create the configured agents; an agent without a model gets the detected one."""
    found = await detect_model(variables())
    agents = make_agents(listed=listed, found=found.settings)
    if listed is None:
        return DetectedAgents(agents, found.sentence)
    speakers = [f"{name} speaks with {agent.model.name}" for name, agent in agents.listed.items()]
    return DetectedAgents(agents, f"{', '.join(speakers)}.", tuple(silent_notes(listed)))


async def detected_model(environment: Mapping[str, str]) -> str:
    """The name of the model that answers for an agent without one."""
    return (await detect_model(environment)).settings.name


async def open_runtime(
    data: Path | str,
    *,
    agents: Agents | None = None,
    serve: bool = True,
    on_broken: Callable[[StoreBroken], None] | None = None,
    connect: Path | None = None,
    hidden: Sequence[Path] = (),
) -> Runtime:
    """Open the store, a folder or a `postgresql://` address, and start its loops.

    `postgres://` and `postgresql+asyncpg://` mean the same; any other `scheme://` is refused.
    With `serve=False` no loop runs and no lock is taken: the runtime accepts messages and reads while another process
    serves. One process at a time serves a folder; any number serve a PostgreSQL database.
    `connect` is the folder of the configuration; with it, the agents' channels connect to their platforms.
    `hidden` lists files that no MCP program may access, in addition to the data folder's files and its key file.
    """
    address = postgres_address(data)
    folder = None if address is not None else (secure_folder if serve else data_folder)(Path(data))
    key = key_of(folder) if folder is not None else None
    in_databases = key.of_databases if key is not None else None
    environment = Environment(
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=AsyncTasks(),
        folder=Path(data) if address is None else None,
        config_folder=connect,
        key=in_databases,
        hidden=(*hidden, *(() if folder is None else key_files(folder))),
        umask=umask_before(),
    )
    if address is not None:
        ports = await _ports(await _open_postgres(address, environment.entropy), environment)
    else:
        ports = await _open_sqlite(environment, serve=serve, on_broken=on_broken)
    try:
        who, providers, notes = make_memory(ports.db, agents or make_agents(), environment)
        who, servers = with_servers(who, environment) if serve else (who, ())
        runtime = assemble(
            ports,
            who,
            serve=serve,
            sole=address is None,
            providers=providers,
            notes=notes,
            channels=_channels(who, environment) if serve else None,
            receive=connect is not None,
            attached=servers,
        )
        runtime.equipment = Equipment(db=ports.db, providers=providers, notes=notes, environment=environment)
        return await runtime.start()
    except BaseException:
        await ports.db.close()  # ends the threads and releases the lock
        raise


def _channels(agents: Agents, environment: Environment) -> Channels:
    """The configured channels, or none. Agents can message each other in both cases."""
    return Channels() if environment.config_folder is None else make_channels(agents, environment)


async def _open_sqlite(
    environment: Environment, *, serve: bool, on_broken: Callable[[StoreBroken], None] | None
) -> Ports:
    folder = environment.folder or Path()
    lock = OwnerLock(folder)
    if serve:
        lock.acquire()
    try:
        database = ThreadedDatabase.open(
            folder / DATABASE,
            environment.clock,
            shared=not serve,
            on_broken=on_broken,
            on_close=lock.release,
            key=environment.key,
        )
        return await _ports(database, environment)
    except BaseException:
        lock.release()
        raise


async def _open_postgres(address: str, entropy: Entropy) -> Database:
    try:
        from holdfast.store.postgres import PostgresDatabase  # noqa: PLC0415 - an extra that most do not have
    except ModuleNotFoundError as error:
        raise ConfigInvalid("PostgreSQL needs an extra: install holdfast[postgres]") from error
    return await PostgresDatabase.open(address, entropy=entropy)


async def _ports(db: Database, environment: Environment) -> Ports:
    """Build the ports over an open database. The database is closed if it cannot be read."""
    try:
        secret = await db.write(load_secret("tombstone", environment.entropy.bits(256).to_bytes(32, "big")))
    except BaseException:
        await db.close()
        raise
    return Ports(
        db=db,
        secret=secret,
        clock=environment.clock,
        entropy=environment.entropy,
        tasks=environment.tasks,
        notifier=Notifier(),
    )


def change_encryption(
    data: Path, to: KeySource | None, on_file: Callable[[str, int, int], None] = lambda *_: None
) -> Changed:
    """Encrypt a data folder, change its key, or decrypt it (`to` is None). No process may serve it. See `change_key`.

    The audit trail records the act under the caller's name (audit/actor.py).
    """
    lock = OwnerLock(data_folder(data))
    lock.acquire()
    try:
        return change_key(data, to, SystemEntropy(), clock=SystemClock(), by=acting(), on_file=on_file)
    finally:
        lock.release()


def is_served(data: Path) -> bool:
    """Whether a process runs workers on the folder. The check holds the folder's lock for a moment."""
    check_owner(data)
    lock = OwnerLock(data)
    try:
        lock.acquire()
    except StoreOwned:
        return True
    lock.release()
    return False


def owner_of(data: Path) -> str | None:
    """The process that took the folder's lock last; a reused process number gives a different value."""
    return OwnerLock(data).incarnation()


def has_store(data: Path) -> bool:
    return (data / DATABASE).exists()


def is_store_current(data: Path) -> bool:
    """Whether the folder's store needs no migration. The check only reads."""
    key = key_of(data)
    return is_migrated(data / DATABASE, key.of_databases if key is not None else None)


def data_folder(path: Path) -> Path:
    """Return the folder, created with mode 0700 if it is missing. Raises `DataFolderForeign` for another user's."""
    postgres_address(path)  # refuses an address
    check_owner(path)
    if path.exists() and not path.is_dir():
        raise StorePathInvalid(f"{path} is a file; a folder is needed", path=str(path))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(f"the folder {path} cannot be made", error, path=str(path)) from error
    return path


def secure_folder(path: Path, tell: Callable[[str], None] | None = None) -> Path:
    """Return the folder after removing other users' permissions; `tell` receives each change.

    Raises `DataFolderForeign` and `DataFolderUnsafe`.
    """
    folder = data_folder(path)
    for one in make_private(folder):
        log.warning("folder.tightened", path=str(one.path), mode=f"{one.mode:04o}")
        if tell is not None:
            tell(one.sentence)
    return folder
