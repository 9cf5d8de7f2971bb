"""The text that an operator reads about a vendor's error names the failure and repeats neither keys nor the request."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.vendor_error import EXTRACT_CHARS_MAX, LEFT_OUT, NO_ANSWER, VendorError, texts_in, vendor_error

SENT = "My cat is called Byron and he bites."
FIELD = {"type": "missing", "loc": ["body", "x"], "msg": "Field required", "input": SENT}


@pytest.mark.parametrize(
    ("body", "code", "extract"),
    [
        ({"error": {"type": "rate_limit_error", "message": "slow down"}}, "rate_limit_error", "slow down"),
        ({"error": {"code": "insufficient_quota", "message": "pay"}}, "insufficient_quota", "pay"),
        (b'{"type": "error", "error": {"type": "api_error", "message": "m"}}', "api_error", "m"),
        ({"detail": "Not Found"}, "", "Not Found"),
        ({"detail": [FIELD]}, "missing", "body x Field required"),
        ({"ok": False, "error": "channel_not_found"}, "", "channel_not_found"),
        ({"ok": False, "error_code": 400, "description": "Bad Request: no chat"}, "", "Bad Request: no chat"),
        ({"errors": ["first", "second"]}, "", "first second"),
        ("<html><h1>502 Bad Gateway</h1></html>", "", "502 Bad Gateway"),
        ({"unknown": "shape"}, "", ""),
        (None, "", ""),
        ("", "", ""),
        (7, "", ""),
    ],
)
def test_the_shapes_of_errors(body, code, extract):
    assert vendor_error(500, {}, body) == VendorError(status=500, code=code, extract=extract)


@pytest.mark.parametrize(
    ("message", "extract"),
    [
        (f"you said {SENT}", f"you said {LEFT_OUT}."),
        ('the value "Byron" is wrong', f"the value {LEFT_OUT} is wrong"),
        ("the field 'messages.0.content' is wrong", "the field 'messages.0.content' is wrong"),
        ("the model `gpt-5.2` is away", "the model `gpt-5.2` is away"),
        ("MY CAT IS here", f"{LEFT_OUT} here"),
        ("the key sk-abcdefghijklmnopqrstuvwx is wrong", "the key [hidden] is wrong"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer [hidden]"),
    ],
)
def test_what_was_sent_and_keys_are_left_out(message, extract):
    assert vendor_error(400, None, {"message": message}, sent=SENT).extract == extract


def test_a_message_of_a_word_or_two_is_left_out_too():
    found = vendor_error(400, None, {"message": "cannot take Byron here"}, sent="Byron")
    assert found.extract == f"cannot take {LEFT_OUT} here"


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"X-Request-Id": "req_1"}, "req_1"),
        ({"request-id": "req_2"}, "req_2"),
        ({"cf-ray": "9a-FRA"}, "9a-FRA"),
        ({"x-request-id": "has a space", "cf-ray": "ok"}, "ok"),
        ({"x-request-id": "x" * 500}, ""),
        (None, ""),
    ],
)
def test_the_request_id_is_found_and_is_an_identifier(headers, found):
    assert vendor_error(500, headers).request_id == found
    assert vendor_error(500, None, {"request_id": "req_body"}).request_id == "req_body"


@pytest.mark.parametrize(
    ("body", "code_in", "code"),
    [
        ({"ok": False, "error": "channel_not_found"}, "error", "channel_not_found"),
        ({"ok": False, "error_code": 400, "description": "no chat"}, "error_code", "400"),
        ({"code": 50007, "message": "no"}, "code", "50007"),
        ({"ok": False, "error": SENT}, "error", ""),
        ({"ok": False, "error": True}, "error", ""),
        ("<html>", "error", ""),
    ],
)
def test_a_code_is_where_the_adapter_says_and_is_an_identifier(body, code_in, code):
    assert vendor_error(400, None, body, code_in=code_in).code == code


def test_a_key_of_any_shape_is_hidden_and_is_no_code_and_no_request_id():
    body = {"type": "sesame", "message": "the key sesame is wrong"}
    found = vendor_error(400, {"x-request-id": "for-sesame", "cf-ray": "9a"}, body, secrets=["sesame", ""])
    assert (found.code, found.request_id) == ("", "9a")
    assert "sesame" not in found.sentence


def test_each_text_of_a_request_is_left_out_by_itself():
    body = {"items": [{"content": SENT, "n": 1}, {"content": "Keats", "tags": ["a poet"]}]}
    found = vendor_error(400, None, {"message": "Keats or a poet or is called Byron"}, sent=texts_in(body))
    assert found.extract == f"{LEFT_OUT} or {LEFT_OUT} or {LEFT_OUT}"


@pytest.mark.parametrize(("status", "body"), [(200, f"so: {SENT}"), (422, '{"input": "My cat is'), (422, '["a cat"')])
def test_what_may_be_peoples_words_is_not_taken_for_a_page(status, body):
    assert vendor_error(status, None, body).extract == ""


def test_a_reason_is_followed_by_what_was_answered():
    found = vendor_error(403, {"cf-ray": "9a-FRA"}, {"code": 50007, "message": "no"}, code_in="code")
    assert found.added_to("refused") == "refused (status 403; request id 9a-FRA; code 50007; it said: no)"
    assert NO_ANSWER.added_to("refused") == "refused"


def test_nothing_known_is_an_empty_sentence():
    assert (VendorError().sentence, VendorError().fields) == ("", {})


NAMES = st.sampled_from(["error", "message", "detail", "type", "x"])
BODIES = st.recursive(
    st.none() | st.text() | st.integers() | st.binary(), lambda one: st.lists(one) | st.dictionaries(NAMES, one)
)


@given(BODIES, st.text(), st.dictionaries(st.text(), st.text()))
def test_nothing_a_vendor_sends_makes_it_fail_or_grow(body, sent, headers):
    found = vendor_error(500, headers, body, sent=sent)
    assert len(found.extract) <= EXTRACT_CHARS_MAX
    assert len(found.sentence) <= EXTRACT_CHARS_MAX + 300
    assert json.dumps(found.fields)
    assert found.extract.isprintable()
