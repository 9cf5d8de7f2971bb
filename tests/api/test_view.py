"""A view shows a value's attributes under the names of its shape, and refuses a field that the shape does not have."""

from dataclasses import dataclass
from enum import Enum

import pytest
from msgspec import Struct

from holdfast.api.shapes.view import each, list_of, optional, or_none, page_of, view_of


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Pen:
    n: int
    colour: Colour = Colour.RED
    owners: tuple[str, ...] = ("ada", "bob")
    note: str = ""
    cap: "Pen | None" = None


class PenShape(Struct, frozen=True, kw_only=True):
    number: int
    colour: str
    owners: list[str]
    note: str | None
    cap: int | None


class PenList(Struct, frozen=True, kw_only=True):
    pens: list[PenShape]


class PenPage(Struct, frozen=True, kw_only=True):
    pens: list[PenShape]
    next: int | None


pen_view = view_of(PenShape, number="n", note=or_none("note"), cap=optional("cap", lambda cap: cap.n))


def test_a_view_shows_enums_by_value_and_tuples_as_lists_under_the_names_of_the_shape():
    expected = PenShape(number=1, colour="red", owners=["ada", "bob"], note=None, cap=2)
    assert pen_view(Pen(1, cap=Pen(2))) == expected


def test_a_view_of_a_field_that_the_shape_does_not_have_is_refused_when_it_is_made():
    with pytest.raises(TypeError, match="PenShape has no field shape"):
        view_of(PenShape, shape="n")


def test_a_value_without_an_attribute_of_the_shape_is_an_error_and_not_a_null():
    with pytest.raises(AttributeError):
        view_of(PenShape)(Pen(1))


def test_a_list_and_the_values_of_an_attribute_are_shown_one_by_one():
    pens = [Pen(1), Pen(2)]
    assert list_of(PenList, pen_view)(pens) == PenList(pens=[pen_view(one) for one in pens])
    assert view_of(PenList, pens=each("pens", pen_view))(PenList(pens=[])) == PenList(pens=[])


@pytest.mark.parametrize(("limit", "following"), [(1, None), (2, 2), (3, None)])
def test_only_a_full_page_has_a_next_one(limit, following):
    assert page_of(PenPage, pen_view)([Pen(1), Pen(2)], limit).next == following
    assert page_of(PenPage, pen_view)([], limit).next is None
