"""Scopes grant what the one table says, and a token that names agents sees no other."""

import pytest

from holdfast.api.auth.access_token import (
    AGENTS_MAX,
    GRANTS,
    LABEL_CHARS_MAX,
    AccessToken,
    Scope,
    hash_token,
    is_token,
    parse_scopes,
    spell_token,
)
from holdfast.kernel.errors import InvalidInput, InvalidName
from holdfast.kernel.ids import TokenId


def token(*scopes, **more):
    return AccessToken(id=TokenId("tok"), scopes=frozenset(scopes), **more)


def test_every_scope_grants_itself_operate_grants_read_read_grants_metrics_and_admin_grants_all():
    assert set(GRANTS) == set(Scope)
    granted = {held: {scope for scope in Scope if token(held).may(scope)} for held in Scope}
    assert granted == {
        Scope.SEND: {Scope.SEND},
        Scope.METRICS: {Scope.METRICS},
        Scope.READ: {Scope.READ, Scope.METRICS},
        Scope.OPERATE: {Scope.OPERATE, Scope.READ, Scope.METRICS},
        Scope.ADMIN: set(Scope),
    }


def test_a_token_without_agents_sees_all_and_one_with_agents_sees_those():
    assert token(Scope.SEND).sees("anybody")
    limited = token(Scope.SEND, agents=frozenset({"ada"}))
    assert limited.sees("ada")
    assert not limited.sees("Ada")
    assert not limited.sees("")


@pytest.mark.parametrize(
    "more",
    [{"label": "x" * (LABEL_CHARS_MAX + 1)}, {"label": "a\nb"}, {"agents": frozenset(map(str, range(AGENTS_MAX + 1)))}],
)
def test_what_a_token_cannot_have_is_refused(more):
    with pytest.raises(InvalidInput):
        token(Scope.SEND, **more)


def test_a_token_needs_a_scope_and_names_real_agents():
    with pytest.raises(InvalidInput, match="at least one scope"):
        token()
    with pytest.raises(InvalidName):
        token(Scope.SEND, agents=frozenset({"../x"}))


def test_scopes_are_spelt_as_the_table_has_them():
    assert parse_scopes(["send", "read", "send"]) == {Scope.SEND, Scope.READ}
    for word in ("Send", "root", ""):
        with pytest.raises(InvalidInput, match="there are: send, metrics, read, operate, admin"):
            parse_scopes([word])


def test_a_token_is_256_bits_and_looks_like_one():
    assert is_token(spell_token((1 << 256) - 1))
    assert is_token(spell_token(0))
    assert len(hash_token(spell_token(1))) == 32
    for odd in ("", "hf_", spell_token(1)[:-1], spell_token(1) + "0", spell_token(1).upper(), spell_token(1) + "\n"):
        assert not is_token(odd)
