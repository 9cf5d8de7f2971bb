"""The promise: a script's SQL means the same on PostgreSQL, and nothing that is not SQL is touched."""

import pytest

from holdfast.store.postgres.dialect import translate, translate_schema
from holdfast.store.sqlite.migrate import in_sqlite_words


def test_a_name_becomes_a_number():
    assert translate("select a from t where b = :b") == ("select a from t where b = $1", ("b",))


def test_numbers_follow_the_first_use_and_a_name_keeps_its_number():
    sql, names = translate("update t set a = :a, b = :b where a <> :a and c = :c")
    assert sql == "update t set a = $1, b = $2 where a <> $1 and c = $3"
    assert names == ("a", "b", "c")


def test_a_name_that_begins_like_another_is_another():
    assert translate("select :id, :id_2, :id") == ("select $1, $2, $1", ("id", "id_2"))


def test_now_is_a_call_and_not_a_parameter():
    assert translate("where due_at <= :now and x = :x") == (
        "where due_at <= holdfast_now() and x = $1",
        ("x",),
    )


def test_a_name_that_begins_with_now_is_a_parameter():
    assert translate("select :now_ms, :nowhere") == ("select $1, $2", ("now_ms", "nowhere"))


@pytest.mark.parametrize(
    ("hint", "clause"),
    [
        ("/*lock*/", "for update"),
        ("/* lock */", "for update"),
        ("/*skip locked*/", "for update skip locked"),
        ("/*strict*/", ""),
    ],
)
def test_a_hint_becomes_its_clause(hint, clause):
    assert translate(f"select 1 from t {hint}").sql == f"select 1 from t {clause}"


@pytest.mark.parametrize(
    "sql",
    [
        "select ':x'",
        "select 'it''s :x /*lock*/'",
        'select ":x" from t',
        "select 1 -- :x /*lock*/",
        "select 1 /* :x */",
        "select 1 /* locks\n are not taken */",
        "select a::int8, '1'::text",
        "select 'bytes'",
    ],
)
def test_literals_names_comments_and_casts_are_left_alone(sql):
    assert translate(sql) == (sql, ())


def test_a_parameter_may_follow_a_literal_a_comment_or_a_cast():
    sql, names = translate("select ':a' || :b, a::text || :c -- :d\n, :e /* :f */ , :g")
    assert sql == "select ':a' || $1, a::text || $2 -- :d\n, $3 /* :f */ , $4"
    assert names == ("b", "c", "e", "g")


def test_a_cast_parameter_keeps_its_cast():
    assert translate("select cast(:x as int8), :y::text") == ("select cast($1 as int8), $2::text", ("x", "y"))


def test_a_column_called_bytes_survives_in_a_statement():
    assert translate("select bytes from t").sql == "select bytes from t"


def test_a_migration_gets_the_words_of_postgresql():
    sql = "create table t (a int8, b bytes not null, c text default 'bytes') /*strict*/; -- bytes"
    assert translate_schema(sql) == ("create table t (a int8, b bytea not null, c text default 'bytes') ; -- bytes")


def test_a_longer_word_is_not_a_type_word():
    assert translate_schema("create table t (bytes_max int8, kilobytes int8)") == (
        "create table t (bytes_max int8, kilobytes int8)"
    )


def test_what_a_migration_says_to_one_engine_alone_is_heard_by_that_engine_only():
    sql = (
        "create table a (x int8) /*strict*/;\n/*sqlite create trigger t; */\n/*postgres create function f() $$ x $$; */"
    )
    ours = translate_schema(sql)
    assert "create function f() $$ x $$;" in ours.replace("/*sqlite create trigger t; */", "")
    assert "/*postgres" not in ours
    theirs = in_sqlite_words(sql)
    assert "create trigger t;" in theirs.replace("/*postgres create function f() $$ x $$; */", "")
    assert "/*sqlite" not in theirs
