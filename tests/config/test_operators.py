"""Operators are people, named by ids that cannot be reassigned; an approver that is a program is reported."""

from pathlib import Path

import pytest

from holdfast.config.reading import parse_config
from holdfast.kernel.errors import AllowlistNotImmutable
from holdfast.runtime.inspection import _notes
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy

FILE = Path("holdfast.toml")


def read(entries):
    config = parse_config(f"[agents.main.access]\noperators = {entries}\n".encode(), FILE)
    assert config.agents is not None
    return config.agents["main"].access.operators


def test_operators_are_read():
    assert read('["telegram:123456789", "discord:80351110224678912"]') == {
        "telegram:123456789",
        "discord:80351110224678912",
    }


@pytest.mark.parametrize("entry", ["ada", "@ada", "telegram:@ada", "slack:ada", "agent:helper", "telegram:"])
def test_a_name_that_can_be_reassigned_and_a_program_are_no_operators(entry):
    with pytest.raises(AllowlistNotImmutable) as refused:
        read(f'["{entry}"]')
    assert "agents.main.access.operators" in str(refused.value)
    assert entry in str(refused.value)


def test_an_agent_among_the_approvers_is_pointed_out():
    policy = AgentPolicy(approval=ApprovalPolicy(approvers=frozenset({"agent:helper", "telegram:1"})))
    (note,) = [one for one in _notes("main", policy) if "approvers" in one]
    assert note == "agents.main.approval.approvers: 'agent:helper' is an agent, and only people can approve tool calls"
