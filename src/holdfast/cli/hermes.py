"""`holdfast hermes`: what Holdfast does for Hermes Agent, one command each."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import Invocation, command, command_group
from holdfast.cli.hermes_doctor import doctor, repair
from holdfast.cli.hermes_import import import_
from holdfast.cli.output import OK, WRONG, Output, facts, print_json, print_warning

Home = Annotated[
    Path | None,
    typer.Argument(metavar="HOME", help="The home folder of Hermes.", show_default="HERMES_HOME, or ~/.hermes"),
]
Python = Annotated[
    Path | None,
    typer.Option("--python", help="The Python interpreter of Hermes.", show_default="that of the command hermes"),
]

hermes_app = command_group("hermes", "Serve Hermes Agent: memory plugin, doctor, import.")
hermes_app.command(name="import")(import_)


@hermes_app.command()
@command()
async def install(
    invocation: Invocation,
    home: Home = None,
    python: Python = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace another memory provider of Hermes.")] = False,
    start: Annotated[
        bool, typer.Option("--start/--no-start", help="Let Hermes start `holdfast hermes serve` if it does not run.")
    ] = True,
) -> Output:
    """Let Hermes deliver its turns through Holdfast.

    The plugin is copied to HOME/plugins/holdfast and `memory.provider` of config.yaml is set; nothing is installed into
    the environment of Hermes. The settings of Hindsight and Honcho are those that Hermes has. Hermes uses the plugin
    from its next start. Supported are Hermes 0.13 to 0.19.

    \b
    Examples:
      holdfast hermes install
      holdfast hermes install ~/.hermes --replace
      holdfast hermes install --no-start --python ~/hermes/venv/bin/python
    """
    from holdfast.hermes.home import find_home
    from holdfast.hermes.install import Installation, install_plugin
    from holdfast.kernel.hardening import variables

    found = find_home(home, variables())
    wanted = Installation(
        python=python, replaces=replace, starts=start, data=invocation.data and invocation.folder.absolute()
    )
    done = install_plugin(found, wanted, variables(), Path.home())
    text = [
        f"Installed for Hermes {done.version} in {done.plugin}.",
        f"Turns go to: {', '.join(done.providers)}.",
        *(f"Not used: {why}." for why in done.left_out),
        "Restart Hermes. `holdfast hermes status` shows whether turns are delivered."
        if start
        else "Run `holdfast hermes serve`, then restart Hermes.",
    ]
    return Output(done.view, *text)


@hermes_app.command()
@command(data=False)
async def uninstall(invocation: Invocation, home: Home = None) -> Output:  # noqa: ARG001
    """Remove the plugin and restore the memory provider that Hermes had.

    Turns that wait in the spool stay there, and the store is kept: `holdfast hermes serve` still delivers them. A
    process that serves the home is not ended.

    \b
    Examples:
      holdfast hermes uninstall
    """
    from holdfast.hermes.home import find_home
    from holdfast.hermes.install import uninstall_plugin
    from holdfast.hermes.status import read_process
    from holdfast.kernel.hardening import variables

    found = find_home(home, variables())
    process = read_process(found)
    provider, waiting = uninstall_plugin(found)
    text = [f"Removed. The memory provider of Hermes is {provider or 'the built-in one'} again."]
    if waiting:
        text.append(f"{waiting} turns wait in {found.spool}; `holdfast hermes serve` delivers them.")
    if process is not None:
        text.append(f"Process {process} still serves {found.path}; end it with `kill {process}`.")
    return Output({"home": str(found.path), "provider": provider, "waiting": waiting, "process": process}, *text)


@hermes_app.command()
@command(config=True)
async def serve(
    invocation: Invocation,
    home: Home = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log to stderr instead of the data folder.")] = False,
) -> int:
    """Take the turns of Hermes and deliver them to Hindsight and Honcho.

    One process serves a home until Ctrl-C. It reads the settings of Hindsight and Honcho where Hermes has them; with
    --config it uses the agents of that holdfast.toml instead. The store is in HOME/holdfast/data, or in --data.

    \b
    Examples:
      holdfast hermes serve
      holdfast hermes serve ~/.hermes --data ~/hermes-memory
    """
    from holdfast.cli.logs import logging_to, to_file
    from holdfast.cli.terminal import on_signal
    from holdfast.hermes.home import find_home
    from holdfast.hermes.service import data_of, serving
    from holdfast.kernel.errors import StoreBroken
    from holdfast.kernel.hardening import variables
    from holdfast.runtime.app import secure_folder

    found = find_home(home, variables())
    data = invocation.folder if invocation.data is not None else data_of(found)
    listed = invocation.settings.agents if invocation.config is not None else None
    ended, broken = asyncio.Event(), list[StoreBroken]()
    loop = asyncio.get_running_loop()

    def on_broken(error: StoreBroken) -> None:  # on the writer's thread
        broken.append(error)
        loop.call_soon_threadsafe(ended.set)

    secure_folder(data, print_warning)
    with logging_to(logging.StreamHandler() if verbose else to_file(data)):
        async with serving(found, data, listed=listed, on_broken=on_broken) as service:
            for why in service.left_out:
                print_warning(why)
            with on_signal(ended.set):
                if invocation.as_json:
                    print_json(
                        {"event": "ready", "home": str(found.path), "data": str(data), "pid": os.getpid()}
                        | {"providers": service.providers}
                    )
                else:
                    print(f"ready    {found.path}, to {', '.join(service.providers)}", flush=True)
                await ended.wait()
    if broken:
        raise broken[0]
    return OK


@hermes_app.command()
@command(data=False)
async def status(invocation: Invocation, home: Home = None) -> Output:  # noqa: ARG001
    """Show whether Hermes delivers its turns through Holdfast.

    Exit code 1 if turns are stored but no process delivers them.

    \b
    Examples:
      holdfast hermes status
      holdfast hermes status ~/.hermes --json
    """
    from holdfast.hermes.home import find_home
    from holdfast.hermes.status import read_status
    from holdfast.kernel.hardening import variables

    view = read_status(find_home(home, variables()))
    return Output(view, facts(view), code=OK if view["installed"] == "no" or view["serving"] == "yes" else WRONG)


hermes_app.command()(doctor)
hermes_app.command()(repair)
