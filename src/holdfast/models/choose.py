"""The models of an agent, made from its table or from the detected defaults.

Rule 1: every fault that can be found without a request is an error at the start: settings, keys, libraries, and a
        spending limit for a model of unknown price.
Rule 2: only the libraries of the configured models are imported; the practice model needs none.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.inbox.component_states import ComponentStates
from holdfast.kernel import log
from holdfast.kernel.errors import ConfigInvalid, ModelFailed
from holdfast.kernel.ports import Tasks
from holdfast.kernel.settings_table import check_key_url, fault_of_url, has_credentials, wrong_url
from holdfast.models.practice import PracticeModel
from holdfast.models.settings import PRACTICE, ModelSettings, has_price, parse_settings
from holdfast.models.vendors import VENDORS
from holdfast.turns.agents import Agents
from holdfast.turns.model import AnswerRestarted, Connected, Model, ModelAnswer, ModelEvent, ModelRequest
from holdfast.turns.model_call import ASKED, listen
from holdfast.turns.policy import AgentPolicy

if TYPE_CHECKING:
    from holdfast.models.pydantic_model import PydanticModel

KEY_BYTES_MAX = 8_192
OF_THE_FIRST = ("fallbacks", "summariser")  # a model that is one itself has none


def make_models(
    policy: AgentPolicy,
    environment: Mapping[str, str],
    tasks: Tasks,
    *,
    found: ModelSettings | None = None,
    where: str = "model",
    lenient: bool = False,
) -> tuple[Model, Model]:
    """The model that replies and the one that summarises. `found` is used for an agent without a model table.

    Raises `ConfigInvalid`. Sends no request. With `lenient`, for processes that rarely use a model, a missing key or
    library raises only when the model is asked; an invalid table still raises at once.
    """
    settings = ModelSettings(name=PRACTICE)
    if policy.model:
        settings = parse_settings(policy.model, where, policy.models)
    elif found is not None:
        settings = found
    try:
        names = (settings.name, *settings.fallbacks)
        chosen = {
            name: _settings_of(name, settings, policy, where) for name in (*names, settings.summariser or names[0])
        }
        if policy.daily_spend_micros is not None:
            for one, place in chosen.values():
                _check_price(one, place)
        made = {name: make_model(one, environment, tasks, where=place) for name, (one, place) in chosen.items()}
        model = made[names[0]] if len(names) == 1 else Fallback([made[name] for name in names])
        return model, model if settings.summariser is None else made[settings.summariser]
    except ConfigInvalid as error:
        if not lenient:
            raise
        missing = NoModel(str(error))
        return missing, missing


def _settings_of(name: str, settings: ModelSettings, policy: AgentPolicy, where: str) -> tuple[ModelSettings, str]:
    """The settings of a model, a fallback or a summariser, and the key of the table that they come from."""
    if name in policy.models and name != settings.name:
        place = f"models.{name}"
        table = {key: one for key, one in policy.models[name].items() if key not in OF_THE_FIRST}
        return parse_settings(table, place), place
    return settings.of(name), where


def is_same_model(one: Model, other: Model) -> bool:
    """Whether two models have the same settings and keys, so that one may take the place of the other."""
    mine, theirs = models_in((one,)), models_in((other,))
    return len(mine) == len(theirs) and all(map(_is_same, mine, theirs))


def _is_same(one: Model, other: Model) -> bool:
    if isinstance(one, LazyModel) and isinstance(other, LazyModel):
        return one.identity == other.identity
    return isinstance(one, PracticeModel) and isinstance(other, PracticeModel)


def models_in(made: Iterable[Model]) -> list[Model]:
    """Every model once, including fallbacks."""
    found: list[Model] = []
    for model in made:
        found += [one for one in (model.models if isinstance(model, Fallback) else (model,)) if one not in found]
    return found


def expect_models(states: ComponentStates, agents: Agents) -> None:
    """List the models of the agents among the states, also those that no request has asked yet, and no other ones."""
    states.expect(
        (name, one.name)
        for name, agent in agents.listed.items()
        for one in models_in((agent.model, agent.summariser))
        if hasattr(one, "name")
    )


class NoModel:
    """Implements `Model` for an agent whose model could not be made."""

    name = "none"

    def __init__(self, why: str) -> None:
        self._why = why

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise ModelFailed(self._why, final=True, task=request.task.value)
        yield  # makes it a generator, as every model's stream is


def make_model(settings: ModelSettings, environment: Mapping[str, str], tasks: Tasks, *, where: str = "model") -> Model:
    """One model. Raises `ConfigInvalid`."""
    if settings.is_practice:
        return PracticeModel()
    _check_libraries(settings, where)
    key = read_key(settings, environment, where)
    if key is not None:
        _check_url(settings, environment, where)
    return LazyModel(settings, key, tasks)


def _check_url(settings: ModelSettings, environment: Mapping[str, str], where: str) -> None:
    """Check the URL that the key is sent to. Raises `ConfigInvalid`, `PlainHttpRefused` and `ProviderUrlForbidden`."""
    url, place = settings.base_url, f"{where}.base_url"
    if url is None:
        variable = VENDORS[settings.vendor].address_env
        url, place = environment.get(variable or "", "").strip(), f"{where}: {variable} in the environment"
        fault = fault_of_url(url) if url else ""
        if fault:
            raise wrong_url(place, "an address" if has_credentials(url) else repr(url[:200]), fault, key="base_url")
    if url:
        check_key_url(place, url, key="base_url", allowed=settings.send_key_over_plain_http)


def read_key(settings: ModelSettings, environment: Mapping[str, str], where: str = "model") -> str | None:
    """The vendor's key, or None if none is needed. Raises `ConfigInvalid`, which never holds the key."""
    if settings.api_key_file is not None:
        return _read_key_file(settings.api_key_file, where)
    variable = settings.api_key_env or VENDORS[settings.vendor].key_env
    if variable is None:
        return None
    value = environment.get(variable, "").strip()
    if not value and settings.api_key_env is None and settings.base_url is not None:
        return None  # a self-hosted server often needs none
    if not value:
        why = f"the environment has no {variable}; set it to the key, or name another with api_key_env or api_key_file"
        raise ConfigInvalid(f"{where}.name is {settings.name!r}: {why}", key=variable)
    return _checked(value, f"{where}: {variable}", variable)


def _read_key_file(file: str, where: str) -> str:
    try:
        with Path(file).expanduser().open("rb") as opened:
            raw = opened.read(KEY_BYTES_MAX + 1)
        text = raw.decode("ascii", "replace").strip()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: `~user` of an unknown user
        why = getattr(error, "strerror", None) or str(error)
        what = f"{where}.api_key_file is {file[:200]!r}: it cannot be read: {why}"
        raise ConfigInvalid(what, key="api_key_file") from error
    return _checked(text, f"{where}.api_key_file is {file[:200]!r}: the file", "api_key_file")


def _checked(value: str, what: str, key: str) -> str:
    if not value:
        raise ConfigInvalid(f"{what} is empty; put the key there", key=key)
    if len(value) > KEY_BYTES_MAX or not value.isascii() or not value.isprintable() or " " in value:
        raise ConfigInvalid(f"{what} has characters that no API key has", key=key)
    return value


def _check_libraries(settings: ModelSettings, where: str) -> None:
    vendor = VENDORS[settings.vendor]
    if vendor.lacking:
        why = f"{settings.vendor} needs {vendor.lacking}: {vendor.install}"
        raise ConfigInvalid(f"{where}.name is {settings.name!r}: {why}", key="name")


def _check_price(settings: ModelSettings, where: str) -> None:
    """A spending limit that cannot be enforced is refused, not ignored."""
    if settings.is_practice:
        return
    _check_libraries(settings, where)
    if not has_price(settings):
        why = "its price is not known, so a daily spending limit cannot be enforced"
        fix = "set input_usd_per_million and output_usd_per_million, or remove the limit"
        raise ConfigInvalid(f"{where}: {settings.name}: {why}; {fix}", key="input_usd_per_million")


# --- models made of models ------------------------------------------------------------------------


class Fallback(Connected):
    """Several models in order: if one fails, the next one is asked. It has the name of the first.

    The next model is asked after a failure that it might not have (`elsewhere`), and not after a refusal. The text
    streamed by a failed model is void; an `AnswerRestarted` event tells the caller. If all fail, the last failure is
    raised, final only if all were final. Its wait is the shortest that any of them asks for: one model is enough.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = tuple(models)
        self.name = self.models[0].name

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        failures: list[ModelFailed] = []
        for model in self.models:
            if failures:
                yield AnswerRestarted(failures[-1])
            try:
                async with listen(model, request) as events:
                    async for event in events:
                        yield replace(event, asked=model.name) if isinstance(event, ModelAnswer) else event
            except ModelFailed as error:
                error.context[ASKED] = model.name
                failures.append(error)
                if not error.context.get("elsewhere", True):
                    raise
                if model is not self.models[-1]:
                    task, why = request.task.value, str(error)
                    log.warning("model.failed", task=task, model=model.name, why=why, **error.vendor.fields)
            else:
                return
        raise _combined(failures)

    async def load(self) -> None:
        for model in self.models:
            if isinstance(model, Connected):
                await model.load()

    async def close(self) -> None:
        for model in self.models:
            if isinstance(model, Connected):
                await model.close()


def _combined(failures: Sequence[ModelFailed]) -> ModelFailed:
    last = failures[-1]
    waits = [error.retry_after_ms for error in failures if not error.is_final]
    last.context.update(final=not waits, retry_after_ms=min(waits, default=0))
    return last


class LazyModel(Connected):
    """A vendor's model whose libraries are loaded by the first request, or before `holdfast up` says that it is ready.

    pydantic-ai and the vendor's library take a second or more and tens of megabytes, so they are imported in a thread.
    The settings, the key and the presence of the libraries are checked before.
    """

    def __init__(self, settings: ModelSettings, key: str | None, tasks: Tasks) -> None:
        self.name = settings.name
        self._settings = settings
        self._key = key
        self._tasks = tasks
        self._loading = asyncio.Lock()
        self._model: PydanticModel | None = None

    async def ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        model = await self._loaded()
        async with aclosing(model.ask(request)) as events:
            async for event in events:
                yield event

    @property
    def identity(self) -> tuple[ModelSettings, str | None]:
        """The settings and the key."""
        return self._settings, self._key

    async def load(self) -> None:
        """Load the libraries now instead of with the first request."""
        await self._loaded()

    async def inspect(self) -> str:
        """Whether the vendor can be reached and accepts the key, without asking for an answer. Raises `ModelFailed`."""
        return await (await self._loaded()).inspect()

    async def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        model, self._model = self._model, None
        if model is not None:
            await model.close()

    async def _loaded(self) -> "PydanticModel":
        async with self._loading:
            if self._model is None:
                self._model = await self._tasks.in_thread(self._load)
            return self._model

    def _load(self) -> "PydanticModel":
        from holdfast.models.pydantic_model import PydanticModel  # noqa: PLC0415 - heavy, and an extra

        has_price(self._settings)  # loads the price table
        return PydanticModel.open(self._settings, self._key)
