"""Every key of a TOML text is found in its line, whatever stands before it."""

from pathlib import Path

from holdfast.config.lines import lines_of
from holdfast.config.reading import read_config

TEXT = '''# a comment = 1
top = 1

[agents.main] # [not.a.table]
instructions = """
[agents.fake]
x = 1
\\""" still inside
"""
tools = [
  "a", # ]
  "b",
]
model = { name = "x", fallbacks = ["]"] }
"quoted.key" . 'b' = \'\'\'
y = 2\'\'\'
[[list]]
a.b.c = "#"
  [ agents . other ]
z = 'it\\'
w = 1979-05-27T07:32:00Z
'''


def test_each_key_has_its_line():
    assert lines_of(TEXT) == {
        "top": 2,
        "agents": 4,
        "agents.main": 4,
        "agents.main.instructions": 5,
        "agents.main.tools": 10,
        "agents.main.model": 14,
        "agents.main.quoted.key": 15,
        "agents.main.quoted.key.b": 15,
        "list": 17,
        "list.a": 18,
        "list.a.b": 18,
        "list.a.b.c": 18,
        "agents.other": 19,
        "agents.other.z": 20,
        "agents.other.w": 21,
    }


def test_windows_line_ends_count_once():
    assert lines_of("a = 1\r\n\r\nb = '''x\r\ny'''\r\nc = 2") == {"a": 1, "b": 3, "c": 5}


def test_an_inherited_setting_has_the_line_of_the_table_that_it_comes_from():
    text = "[defaults]\nhops_max = 2\n[models.fast]\nname = 'x:y'\n[agents.a]\nmodel = 'fast'\n[agents.b]\nhops_max = 3"
    origins = read_config(text.encode(), Path("holdfast.toml")).config.origins
    assert origins.of("agents.a.hops_max") == "defaults.hops_max"
    assert [origins.line(f"agents.{key}") for key in ("a.hops_max", "b.hops_max", "a.model.name")] == [2, 8, 4]
    assert origins.wrote("agents.a.context_tokens") is None
