"""The promise: a select list and the value that its rows become have one order, whatever the columns are called."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import pytest

from holdfast.store.script import Columns, Query, utf8


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    id: str
    colour: Colour | None
    dry: bool
    label: str = "none"
    coats: tuple[str, ...] = ()


class Spot(NamedTuple):
    x: int
    y: int = 7


PAINT = Columns(Paint, "paint", without=("coats",), dry="paint.wet = 0", label=("paint.body", utf8))


def test_the_list_has_a_column_for_each_field_in_its_order():
    assert str(PAINT) == "paint.id, paint.colour, paint.wet = 0, paint.body"
    assert PAINT.names == ("id", "colour", "dry", "label")


def test_a_row_becomes_the_value_with_converted_fields():
    assert PAINT.value(("a", "red", 1, b"gl\xc3\xa4nzend")) == Paint(
        id="a", colour=Colour.RED, dry=True, label="glänzend"
    )


def test_null_is_the_default_of_its_field_or_none():
    assert PAINT.value(("a", None, 0, None)) == Paint(id="a", colour=None, dry=False)
    assert Columns(Spot).value((1, None)) == Spot(1)


def test_a_field_without_a_column_is_given_with_the_row():
    assert PAINT.value(("a", None, 0, None), coats=("first",)).coats == ("first",)


def test_a_name_that_is_no_field_is_refused():
    with pytest.raises(TypeError, match="Spot has no fields z"):
        Columns(Spot, z="1")


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="zip"):
        PAINT.value(("a", None, 0, None, "more"))


def test_a_script_reads_values():
    script = Columns(Spot).one("select 1", id="s")
    assert next(script) == Query("select 1", {"id": "s"})
    with pytest.raises(StopIteration) as done:
        script.send([(1, 2), (3, 4)])
    assert done.value.value == Spot(1, 2)
