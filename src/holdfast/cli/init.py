"""`holdfast init`: ask what an agent needs, and write a commented holdfast.toml that works."""

import os
import sys
from collections.abc import Sequence
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Config, Data, Invocation, Json, command
from holdfast.cli.output import Output
from holdfast.config import FILE
from holdfast.config.draft import AGENT, CHANNELS, PROVIDERS, URLS, Choices, draft
from holdfast.config.reading import read_config
from holdfast.inbox.access import check_operator
from holdfast.inbox.address import agent_name
from holdfast.kernel.errors import ConfigInvalid
from holdfast.kernel.files import is_out_of_space, unwritable
from holdfast.kernel.hardening import variables

DETECT = "detect"  # no model table: the model is chosen at each start
NONE = "none"


class InitAudience(Enum):
    """Who will talk to an agent."""

    ONE = "one"
    SEVERAL = "several"


class InitChannel(Enum):
    TELEGRAM = "telegram"
    DISCORD = "discord"
    SLACK = "slack"


class InitProvider(Enum):
    HONCHO = "honcho"
    HINDSIGHT = "hindsight"


SHARING = {InitAudience.ONE: "agent", InitAudience.SEVERAL: "person"}
SHARING_MEANS = {
    InitAudience.ONE: "every private chat sees all memories of the agent",
    InitAudience.SEVERAL: "each person sees only their own notes and messages, and a group only its own",
}

People = Annotated[
    InitAudience | None, typer.Option("--people", help="Who will talk to the agent: only you, or several people.")
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", help='The model, as in "openai:gpt-5.2", or "practice".', show_default="detected"),
]
KeyVariable = Annotated[
    str, typer.Option("--api-key-env", help="The environment variable with the key of the model.", show_default="")
]
Service = Annotated[
    InitProvider | None,
    typer.Option("--provider", help="A memory service, in addition to the embedded memory.", show_default="none"),
]
ServiceUrl = Annotated[
    str, typer.Option("--provider-url", help="The address of the memory service.", show_default="on this machine")
]
Platforms = Annotated[
    list[InitChannel] | None,
    typer.Option("--channel", help="A chat platform; may be repeated.", show_default="none"),
]
OPERATOR_HELP = "Who may use every command, as in telegram:123456789; may be repeated."
Operators = Annotated[list[str] | None, typer.Option("--operator", help=OPERATOR_HELP, show_default="")]


def init(
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file, which is kept as .bak.")] = False,
    people: People = None,
    model: ModelName = None,
    api_key_env: KeyVariable = "",
    provider: Service = None,
    provider_url: ServiceUrl = "",
    channel: Platforms = None,
    operator: Operators = None,
    agent: Annotated[str, typer.Option("--agent", help="The name of the agent.")] = AGENT,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write a commented holdfast.toml that works.

    The file is written into the data folder, or to the path of --config. It shows every setting; one agent is ready to
    run. On a terminal and without options the command asks who will talk to the agent, and for its model, chat
    platforms and memory. Otherwise each option that is not given has its default; for --people that is several people.

    Secrets are not part of the file: the command lists the environment variables that have to be set.

    \b
    Examples:
      holdfast init
      holdfast init --people one --model openai:gpt-5.2
      holdfast init --channel telegram --operator telegram:123456789 --provider honcho
      holdfast init --config ./holdfast.toml
    """
    given = (people, model, provider, channel, operator, api_key_env, provider_url)
    if not any(given) and not as_json and sys.stdin.isatty():
        choices = _asked(agent)
    else:
        choices = Choices(
            agent=agent,
            sharing=SHARING[people or InitAudience.SEVERAL],
            model=model or "",
            api_key_env=api_key_env,
            provider=provider.value if provider else "",
            provider_url=provider_url,
            channels=tuple(one.value for one in channel or ()),
            operators=tuple(operator or ()),
        )
    _init(force=force, choices=choices, config=config, data=data, as_json=as_json)


def _asked(agent: str) -> Choices:
    """Ask at the terminal. An unclear answer to the first question shares the least."""
    print("Who will talk to this agent: only you, or several people?")
    print(f"  only you:       {SHARING_MEANS[InitAudience.ONE]}.")
    print(f"  several people: {SHARING_MEANS[InitAudience.SEVERAL]}.")
    who = typer.prompt("[one/several]", default=InitAudience.SEVERAL.value).strip().casefold()
    people = InitAudience.ONE if who in {"one", "me", "only me", "only you", "1"} else InitAudience.SEVERAL
    print('Which model answers? "vendor:model" as in openai:gpt-5.2, "practice" for the offline one, or "detect":')
    print("  the first of OPENAI_API_KEY, ANTHROPIC_API_KEY and a local Ollama that there is at each start.")
    model = typer.prompt("[model]", default=DETECT).strip()
    channels = _several(f"On which chat platforms? {', '.join(CHANNELS)}", CHANNELS)
    print(f"A memory service besides the embedded memory? {', '.join(PROVIDERS)}")
    provider = _one_of(typer.prompt("[memory]", default=NONE), PROVIDERS)
    url = typer.prompt(f"[address of {provider}]", default=URLS[provider]).strip() if provider else ""
    return Choices(
        agent=agent,
        sharing=SHARING[people],
        model="" if model == DETECT else model,
        provider=provider,
        provider_url=url,
        channels=channels,
    )


def _several(question: str, known: Sequence[str]) -> tuple[str, ...]:
    print(question)
    answer = typer.prompt("[platforms]", default=NONE)
    words = answer.replace(",", " ").split()
    return tuple(dict.fromkeys(found for word in words if (found := _one_of(word, known))))


def _one_of(answer: str, known: Sequence[str]) -> str:
    """The known name; empty for none. Raises `ConfigInvalid`."""
    word = answer.strip().casefold()
    if word in {"", NONE, "no"}:
        return ""
    if word not in known:
        raise typer.BadParameter(f"{answer.strip()!r} is not one of {', '.join((*known, NONE))}")
    return word


@command(config=True)
async def _init(invocation: Invocation, force: bool, choices: Choices) -> Output:
    from holdfast.runtime.inspection import Inspector, check_model

    agent_name(choices.agent)
    if choices.model:
        check_model(choices.model)
    for one in choices.operators:
        check_operator(one)
    file = invocation.config if invocation.config is not None else invocation.folder / FILE
    text = draft(choices)
    reading = read_config(text.encode(), file)
    if reading.problems:
        raise reading.problems[0]
    kept = write(file, text, force=force)
    found = await Inspector(reading.config, invocation.folder, variables()).inspect()
    given = (("config", invocation.config), ("data", invocation.data))
    where = "".join(f" --{name} {path}" for name, path in given if path is not None)
    people = next(one for one, sharing in SHARING.items() if sharing == choices.sharing)
    value = {
        "file": str(file),
        "kept": str(kept) if kept else None,
        "sharing": choices.sharing,
        "missing": [str(one) for one in found.problems],
    }
    return Output(
        value,
        f"wrote    {file}",
        f'sharing  memory.sharing = "{choices.sharing}": {SHARING_MEANS[people]}',
        *([f"kept     {kept}, the previous file"] if kept is not None else []),
        *(f"missing  {str(one).removeprefix(f'{file}: ')}" for one in found.problems),
        f"next     edit the file, then run: holdfast config check{where}\n         and: holdfast up{where}",
    )


def _spare(file: Path) -> Path:
    """An unused name beside the file, so that earlier copies are kept."""
    names = (f"{file.name}.bak{n if n > 1 else ''}" for n in count(1))
    return next(place for name in names if not (place := file.with_name(name)).exists())


def write(file: Path, text: str, *, force: bool) -> Path | None:
    """Write the file. Returns the new path of the file that it replaced. Raises `ConfigInvalid`, `StoreFull`."""
    kept = None
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if force and file.exists():
            kept = _spare(file)
            file.replace(kept)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except FileExistsError as error:
        fix = "it was not changed; edit it, or replace it with --force"
        raise ConfigInvalid(f"{file} exists already: {fix}", file=str(file)) from error
    except OSError as error:
        if is_out_of_space(error):
            file.unlink(missing_ok=True)  # an incomplete file is not a configuration
            if kept is not None:
                kept.replace(file)
            raise unwritable(f"{file} cannot be written", error, file=str(file)) from error
        raise ConfigInvalid(f"{file} cannot be written: {error.strerror}", file=str(file)) from error
    return kept
