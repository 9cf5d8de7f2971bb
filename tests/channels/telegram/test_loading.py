"""aiogram is loaded quickly, and other code that uses aiogram or pydantic sees no difference."""

import sys
from typing import ClassVar

import pytest
from aiogram.types import Message, Update
from pydantic import BaseModel, PydanticUndefinedAnnotation, ValidationError

from holdfast.channels.telegram import loading

CHAT = {"id": 1, "type": "private"}
SAID = {"message_id": 1, "date": 0, "chat": CHAT, "from": {"id": 2, "is_bot": False, "first_name": "Bob"}, "text": "hi"}


def test_a_type_that_was_not_built_is_complete_when_it_is_used():
    update = Update.model_validate({"update_id": 1, "message": {**SAID, "reply_to_message": SAID}})
    assert isinstance(update.message, Message)
    assert isinstance(update.message.reply_to_message, Message)
    with pytest.raises(ValidationError):
        Update.model_validate({"update_id": 1, "message": {**SAID, "chat": "nowhere"}})


def test_pydantic_is_as_it_was():
    assert BaseModel.__dict__["model_rebuild"].__func__.__module__ == "pydantic.main"


def test_the_types_of_others_are_built_at_once_meanwhile():
    with loading._postponing() as postponed:

        class Early(BaseModel):
            later: "Late"

        class Late(BaseModel):
            number: int

        assert Early.model_rebuild() is True
    assert postponed.types == []
    assert Early.model_validate({"later": {"number": 1}}).later.number == 1


def test_where_it_does_not_work_everything_is_built_as_aiogram_does_it():
    class Stubborn(BaseModel):
        @classmethod
        def model_rebuild(cls, **options):
            raise PydanticUndefinedAnnotation("User", "no such name")

    class Kind(BaseModel):
        built: ClassVar[list[object]] = []

        @classmethod
        def model_rebuild(cls, **options):
            cls.built.append(options)

    postponed = loading.Postponed()
    postponed.types, postponed.names = [Kind], {"User": int}
    postponed.build([Stubborn])
    assert Kind.built == [{"_types_namespace": {"User": int}}]


def test_a_second_loading_changes_nothing():
    before = set(sys.modules)
    loading.load_aiogram()
    assert set(sys.modules) == before
