"""What `holdfast up` says when it cannot start, and when two processes want one bot: an exit code, one clear sentence,
no traceback, no secret; and nothing lost."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.commands import app
from tests.platforms.telegram import FakeTelegram
from tests.support.processes import Up

SECRET = "123456:only-the-tests-know-this"
TELEGRAM = '[agents.{agent}.channels.telegram]\ntoken_env = "{variable}"\n'
QUIET = {"HOLDFAST_DATA": None, "HOLDFAST_CONFIG": None, "HOLDFAST_TOKEN": None}


def bot(agent: str, variable: str) -> str:
    return TELEGRAM.format(agent=agent, variable=variable)


WRONG = {
    "a typo in a table": ("[agent.ada]\n", "agent"),
    "a typo in a setting": ('[agents.ada]\ninstruction = "Be brief."\n', "agents.ada.instruction"),
    "an unknown channel": ('[agents.ada.channels.telegramm]\ntoken_env = "A"\n', "agents.ada.channels.telegramm"),
    "a setting of a channel": (bot("ada", "A") + "pol_s = 3\n", "pol_s"),
    "a missing secret": (bot("ada", "NOBODY_SET_THIS"), "NOBODY_SET_THIS"),
    "a secret in the file": (f'[agents.ada.channels.telegram]\ntoken = "{SECRET}"\n', "token_env"),
    "a token named twice": (bot("ada", "A") + bot("bob", "A"), "duplicate token"),
    "a token under two names": (bot("ada", "A") + bot("bob", "B"), "duplicate token"),
}


@pytest.mark.parametrize(("config", "named"), WRONG.values(), ids=WRONG)
def test_a_configuration_that_cannot_work_is_refused_with_a_sentence(tmp_path, config, named):
    (tmp_path / "holdfast.toml").write_text(config)
    arguments = ["up", "--config", str(tmp_path / "holdfast.toml"), "--data", str(tmp_path / "data"), "--port", "0"]
    done = CliRunner().invoke(app, arguments, env={**QUIET, "A": SECRET, "B": SECRET}, prog_name="holdfast")
    assert done.exit_code == 1, done.output
    *_, sentence, hint = done.stderr.splitlines()
    assert sentence.startswith("error[config_invalid]: ")
    assert named in sentence
    assert hint.strip().startswith("hint: ")
    assert "Traceback" not in done.output
    assert SECRET not in done.output


def test_everything_that_is_wrong_is_said_at_once_with_its_file(tmp_path):
    config = tmp_path / "holdfast.toml"
    config.write_text(f'[agents.ada]\nmodel = "gpt-5"\n{bot("ada", "NOBODY_SET_THIS")}[agents.bob.memory.nowhere]\n')
    arguments = ["up", "--config", str(config), "--data", str(tmp_path / "data"), "--port", "0"]
    done = CliRunner().invoke(app, arguments, env=QUIET, prog_name="holdfast")
    problems = [line for line in done.stderr.splitlines() if line.startswith("error[")]
    checked = CliRunner().invoke(app, ["config", "check", *arguments[1:5]], env=QUIET, prog_name="holdfast")
    assert problems == [line for line in checked.stderr.splitlines() if line.startswith("error[")]
    assert (done.exit_code, all(line.startswith(f"error[config_invalid]: {config}: ") for line in problems)) == (
        1,
        True,
    )
    keys = ("agents.ada.model", "agents.ada.channels.telegram", "agents.bob.memory.nowhere")
    assert [any(key in line for line in problems) for key in keys] == [True, True, True]
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"], env=QUIET, prog_name="holdfast").stdout)
    assert (told["error"]["code"], len(told["problems"])) == ("config_invalid", 3)


# --- two processes, one bot ------------------------------------------------------------------------


async def test_two_processes_that_poll_one_bot_say_so_and_lose_and_double_nothing(tmp_path):
    async with FakeTelegram() as telegram:
        account, ada = telegram.bot("crew_bot"), telegram.user("Ada")
        chat = telegram.private(account, ada)
        config = tmp_path / "holdfast.toml"
        config.write_text(
            f'[agents.main]\nmodel = "practice"\n[agents.main.access]\ndoor = "open"\n{bot("main", "T")}'
            f'api_url = "{telegram.url}"\n'
        )
        first = await up(tmp_path / "first", config, account.token)
        try:
            await telegram.until(lambda: account.waiting)
            telegram.say(chat, ada, "1")
            await telegram.until(lambda: len(chat.posted()) == 1 and account.waiting and not account.pending)
            polls = account.polls
            second = await up(tmp_path / "second", config, account.token)
            try:
                await telegram.until(lambda: account.polls > polls + 1 and account.waiting)
                for number in range(2, 8):
                    telegram.say(chat, ada, str(number))
                await telegram.until(lambda: len(chat.posted()) >= 7)
            finally:
                assert await second.stop() == 0
        finally:
            assert await first.stop() == 0
        answers = [f"You said: {number} " in text for number, text in enumerate(chat.texts(), start=1)]
        assert (len(answers), all(answers)) == (7, True), chat.texts()
        assert account.pending == []
    said = [*lines(tmp_path / "first"), *lines(tmp_path / "second")]
    assert any("another process polls with this bot's token" in str(line.get("why")) for line in said)


async def up(data: Path, config: Path, token: str) -> Up:
    return await Up.start(data, "--config", str(config), environment={"T": token})


def lines(data: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (data / "holdfast.log").read_text(encoding="utf-8").splitlines()]
