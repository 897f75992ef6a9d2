"""Filters as people and programs write them: what they say, what they mean, and how a mistake is shown."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.filter_strategies import filters, metadata

from ragcli.errors import FilterError, UsageError
from ragcli.filters import (
    And,
    Compare,
    Exists,
    Filter,
    Match,
    Not,
    OneOf,
    Or,
    all_of,
    any_of,
    date_range_filter,
    matches,
    parse_filter_json,
    parse_operators,
    parse_where,
    where_text,
)
from ragcli.text.datetimes import parse_age, parse_period, period_of_date
from ragcli.types import Metadata

PAPER: Metadata = {
    "year": 2017,
    "author": ["Kristan Temme", "Sergey Bravyi", "Jay Gambetta"],
    "tag": ["noise", "zne"],
    "draft": False,
    "date": date(2017, 11, 3),
    "seen": datetime(2024, 5, 1, 10, 30, tzinfo=UTC),
    "venue": "Physical Review Letters",
    "place": "Zürich",
    "rating": 4.5,
    "my-key": "x",
}


@pytest.mark.parametrize(
    "text",
    [
        'year >= 2017 and author ~ "Temme" and tag in ["noise", "zne"] and not draft',
        "year = 2017",
        "year == 2017.0",
        "year != 2018",
        "year < 2018 AND year > 2016",
        "year < 99999999999999999999999",
        "rating >= 4.5",
        "rating in [4.5]",
        "year not in [2016, 2018]",
        "tag = 'zne'",
        "tag != 'qec'",
        "author ~ 'temme'",
        "place ~ 'zurich'",
        "place ~ 'ZÜRICH'",
        "venue like 'physical %'",
        "venue like '%review_letters'",
        r"venue matches 'Rev\w+ L'",
        "venue matches '(?i)physical'",
        "exists venue",
        "not exists doi",
        "draft = false",
        "not draft",
        "date = 2017",
        "date = 2017-11",
        "date = 2017-11-03",
        "date > 2017-10",
        "date <= 2017-11",
        "date < '2018'",
        "date ~ '2017-11'",
        "seen = 2024-05-01",
        "seen = 2024-05-01T10:30",
        "seen >= 2024-05-01T12:30:00+02:00",
        "`my-key` = 'x'",
        "(year = 1 or year = 2017) and (exists date)",
        "year = 1 or year = 2 or year = 2017",
        "true",
        "not false",
    ],
)
def test_a_paper_meets_what_is_so(text: str) -> None:
    assert matches(parse_where(text), PAPER)
    assert not matches(Not(parse_where(text)), PAPER)


@pytest.mark.parametrize(
    "text",
    [
        "year = '2017'",
        "venue = 'physical review letters'",
        "venue = 2017",
        "venue > 1",
        "draft = 0",
        "draft",
        "year = true",
        "doi = 'x'",
        "doi != 'x'",
        "doi not in ['x']",
        "doi ~ ''",
        "tag != 'zne'",
        "tag in []",
        "tag not in ['zne', 'other']",
        "venue like 'review'",
        "venue matches '^Letters'",
        "date < 2017-11-03",
        "date > 2017",
        "date = 'soon'",
        "seen = 2024-05-01T10:31",
        "year ~ '2017'",
        "false",
        "year = 2017 and not true",
    ],
)
def test_a_paper_does_not_meet_what_is_not_so(text: str) -> None:
    assert not matches(parse_where(text), PAPER)


def test_and_binds_more_than_or_and_not_more_than_both() -> None:
    assert parse_where("a = 1 or b = 2 and not c = 3 or d = 4") == Or(
        (
            Compare("a", "=", 1),
            And((Compare("b", "=", 2), Not(Compare("c", "=", 3)))),
            Compare("d", "=", 4),
        )
    )


def test_keys_and_texts_keep_what_is_quoted() -> None:
    assert parse_where(r"`a ``".replace("``", r"\`` = 'it\'s \d \\ “x”'")) == Compare("a `", "=", r"it's \d \ “x”")
    assert parse_where('`and` = "\n"') == Compare("and", "=", "\n")
    assert parse_where("größe ~ 'é'") == Match("größe", "~", "é")


def test_words_of_the_language_may_be_written_in_any_case() -> None:
    assert parse_where("NOT a IN [TRUE] Or Exists b") == Or((Not(OneOf("a", (True,))), Exists("b")))


@settings(max_examples=200, deadline=None)
@given(filters())
def test_a_filter_that_is_written_is_read_as_the_same(condition: Filter) -> None:
    again = parse_where(where_text(condition))
    assert again == condition
    assert where_text(again) == where_text(condition)


@settings(max_examples=200, deadline=None)
@given(st.text("ab=<>!~()[],.'\"`\\-0123 \tandorti\n²é", max_size=40))
def test_any_text_is_a_filter_or_an_error_that_points_into_it(text: str) -> None:
    picture: tuple[str, ...] = ()
    try:
        parse_where(text)
    except FilterError as error:
        picture = error.picture
    if picture:
        shown, caret = picture
        assert caret.strip() == "^"
        assert 2 <= caret.index("^") <= len(shown)


@pytest.mark.parametrize(
    ("text", "said", "fault"),
    [
        ("year >= and x", "there is `and` where it needs a value", "and x"),
        ("year 2017", "where it needs what is to be known of `year`", "2017"),
        ("tag = noise", 'a text stands in quotes, as in "noise"', "noise"),
        ('"year" = 2017', "a key; it stands first and without quotes", '"year"'),
        ("a = 1 b = 2", "`and`, `or` or the end", "b = 2"),
        ("(a = 1 or b = 2", "this parenthesis is never closed", "(a"),
        ("a = 1)", "`and`, `or` or the end", ")"),
        ("a in [1, 2", "this list is never closed", "[1"),
        ("a in 1", "needs a list after `in`", "1"),
        ("a not like 'x'", "needs `in` after `not`", "like"),
        ("a = 'x", "the quote ' is never closed", "'x"),
        ("my-key = 1", "stands in backticks: `my-key`", "-key"),
        ("a = 12x", "neither a number nor a date", "12x"),
        ("a = 2024-13", "there is no date 2024-13", "2024-13"),
        ("a = 2024-02-30", "there is no date 2024-02-30", "2024-02-30"),
        ("a ~ 3", "needs a text in quotes after `~`", "3"),
        ("a matches '('", "this is no regular expression", "'('"),
        ("a < true", "not before or after anything", "true"),
        ("a = 1 && b = 2", "'&' means nothing here; write `and`", "&& b"),
        ("a = “x”", "'“' means nothing here; write `\"`", "“x”"),
        ("a ≥ 3", "'≥' means nothing here; write `>=`", "≥ 3"),
        ("a = 1e999", "no numbers that large", "1e999"),
        ("`` = 1", "the key between the backticks is empty", "``"),
    ],
)
def test_a_mistake_is_shown_with_a_caret_under_it(text: str, said: str, fault: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_where(text)
    sentence, shown, caret = str(caught.value).split("\n")
    assert said in sentence
    assert shown == f"  {text}"
    assert shown[caret.index("^") :].startswith(fault)


@pytest.mark.parametrize("key", ["किताब", "หนังสือ", "e\u0301dition", "tiếng"])
def test_a_key_in_any_script_is_a_plain_word_with_its_vowel_signs_and_accents(key: str) -> None:
    assert parse_where(f"{key} >= 3 and not {key}") == parse_where(f"`{key}` >= 3 and not `{key}`")


def test_the_caret_stands_under_the_fault_also_after_wide_characters_and_line_breaks() -> None:
    with pytest.raises(FilterError) as caught:
        parse_where("名前 = '漢'\nand ?")
    assert caught.value.picture == ("  名前 = '漢' and ?", "  " + " " * 16 + "^")


def test_of_a_long_filter_what_stands_around_the_fault_is_shown() -> None:
    text = " and ".join(f"key{n} = {n}" for n in range(200))
    with pytest.raises(FilterError) as caught:
        parse_where(text.replace("key100 = 100", "key100 = oops"))
    shown, caret = caught.value.picture
    assert len(shown) < 140
    assert shown[caret.index("^") :].startswith("oops and")


@pytest.mark.parametrize("text", ["not " * 5000 + "a", "(" * 5000 + "a" + ")" * 5000, "a" * 30_000, "", "  "])
def test_a_filter_too_deep_or_too_long_or_empty_is_an_error(text: str) -> None:
    with pytest.raises(FilterError):
        parse_where(text)


@pytest.mark.parametrize(
    ("operators", "text"),
    [
        (
            {"$and": [{"year": {"$gte": 2017}}, {"tag": {"$in": ["noise", "zne"]}}]},
            'year >= 2017 and tag in ["noise", "zne"]',
        ),
        ({"year": 2017, "draft": False}, "year = 2017 and draft = false"),
        ({"year": {"$gt": 2010, "$lt": 2020}}, "year > 2010 and year < 2020"),
        ({"$or": [{"a": 1}, {"b": {"$lte": 2}}]}, "a = 1 or b <= 2"),
        ({"$nor": [{"a": 1}, {"b": 2}]}, "not (a = 1 or b = 2)"),
        ({"$not": {"a": {"$eq": "x"}}}, 'not a = "x"'),
        ({"a": {"$not": {"$ne": "x"}}}, 'not a != "x"'),
        ({"a": {"$nin": [1, "x"]}}, 'a not in [1, "x"]'),
        ({"a": {"$exists": True}, "b": {"$exists": False}}, "exists a and not exists b"),
        ({"a": {"$contains": "x"}}, 'a ~ "x"'),
        ({"a": {"$like": "x%"}}, 'a like "x%"'),
        ({"a": {"$regex": "^x"}}, 'a matches "^x"'),
        ({"a": {"$gte": date(2024, 5, 1)}}, "a >= 2024-05-01"),
        ({"a": datetime(2024, 5, 1, 12, 0, 0, 5)}, "a = 2024-05-01T12:00:00+00:00"),
        ({}, "true"),
        ({"my key": 1}, "`my key` = 1"),
    ],
)
def test_the_operator_form_says_the_same_as_an_expression(operators: dict[str, object], text: str) -> None:
    assert where_text(parse_operators(operators)) == text
    assert parse_operators(operators) == parse_where(text)


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ({"year": {"$gtx": 1}}, "at year.$gtx: there is no operator $gtx; did you mean $gt?"),
        ({"$adn": []}, "at $adn: there is no operator $adn here; did you mean $and?"),
        ({"$and": [{"a": 1}, {"b": None}]}, "at $and[1].b: null is no value"),
        ({"$and": []}, "the list of filters is empty"),
        ({"$or": {"a": 1}}, "a list of filters is needed, not an object"),
        ({"a": [1]}, "not a list; `"),
        ({"a": {}}, "there is no condition"),
        ({"a": {"$in": "x"}}, "a list of values is needed, not a text"),
        ({"a": {"$in": [[1]]}}, "at a.$in[0]:"),
        ({"a": {"$exists": 1}}, "true or false is needed, not a number"),
        ({"a": {"$gt": True}}, "not before or after anything"),
        ({"a": float("nan")}, "there is no such number"),
        ({"a": {"$regex": "("}}, "no regular expression"),
        ({"": 1}, "keys are texts"),
        ([1], "an object of keys and conditions is needed, not a list"),
    ],
)
def test_a_mistake_in_the_operator_form_names_its_place(operators: dict[str, object], said: str) -> None:
    with pytest.raises(FilterError, match="cannot be read") as caught:
        parse_operators(operators)
    assert said in str(caught.value)


def test_nesting_without_end_is_an_error() -> None:
    operators: dict[str, object] = {"a": 1}
    for _ in range(5000):
        operators = {"$not": operators}
    with pytest.raises(FilterError, match="in one another"):
        parse_operators(operators)


def test_a_place_deep_in_a_filter_is_told_by_its_end() -> None:
    deep: dict[str, object] = {"a": {"$foo": 1}}
    for _ in range(50):
        deep = {"$not": deep}
    with pytest.raises(FilterError, match=r"at ….*\$not\.a\.\$foo: there is no operator \$foo") as caught:
        parse_operators(deep)
    assert len(str(caught.value)) < 200


def test_json_that_is_none_is_shown_with_a_caret() -> None:
    with pytest.raises(FilterError) as caught:
        parse_filter_json('{"year": {"$gte": 2017}')
    assert caught.value.picture == ('  {"year": {"$gte": 2017}', "  " + " " * 23 + "^")
    with pytest.raises(FilterError, match='says "a" twice'):
        parse_filter_json('{"a": 1, "a": 2}')
    many = ",".join(f'"{n}":1' for n in range(80_000))
    with pytest.raises(FilterError, match='says "79999" twice'):  # and not only after minutes
        parse_filter_json(f'{{{many},"79999":2}}')
    with pytest.raises(FilterError, match="too deep"):
        parse_filter_json('{"a":' * 100_000)
    assert parse_filter_json('{"a": {"$in": [1, "x", true]}}') == OneOf("a", (1, "x", True))


@settings(max_examples=100, deadline=None)
@given(filters(), filters(), metadata())
def test_filters_join_as_the_words_say(first: Filter, second: Filter, said: Metadata) -> None:
    both = matches(first, said), matches(second, said)
    assert matches(all_of(first, second), said) == all(both)
    assert matches(any_of(first, second), said) == any(both)
    assert matches(Not(first), said) is not both[0]
    assert matches(all_of(first, None), said) == both[0]


NOW = datetime(2024, 3, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("age", "moment"),
    [
        ("12h", datetime(2024, 3, 31, 0, 0, tzinfo=UTC)),
        ("90d", datetime(2024, 1, 1, 12, 0, tzinfo=UTC)),
        ("2w", datetime(2024, 3, 17, 12, 0, tzinfo=UTC)),
        ("1m", datetime(2024, 2, 29, 12, 0, tzinfo=UTC)),
        ("6m", datetime(2023, 9, 30, 12, 0, tzinfo=UTC)),
        ("15m", datetime(2022, 12, 31, 12, 0, tzinfo=UTC)),
        ("2y", datetime(2022, 3, 31, 12, 0, tzinfo=UTC)),
    ],
)
def test_an_age_counts_back_by_the_calendar(age: str, moment: datetime) -> None:
    assert parse_age(age, NOW) == period_of_date(moment)


@pytest.mark.parametrize("text", ["", "90", "d", "-3d", "3 weeks", "9999y", "999999y", "1.5d"])
def test_what_is_no_age_is_none(text: str) -> None:
    assert parse_age(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "days"), [("2024", 366), ("2023", 365), ("2024-02", 29), ("2024-12", 31), ("9999", 365), ("2024-02-29", 1)]
)
def test_a_date_stands_for_all_the_days_it_names(text: str, days: int) -> None:
    period = parse_period(text)
    assert period is not None
    assert period.stop - period.start == days * 86_400


OLD: Metadata = {"date": date(2023, 12, 31), "year": 2023, "modified": datetime(2024, 3, 1, tzinfo=UTC)}
THAT_YEAR: Metadata = {"year": 2024, "modified": datetime(2020, 1, 1, tzinfo=UTC)}
FILE: Metadata = {"modified": datetime(2024, 3, 1, tzinfo=UTC), "date": "in the spring"}
TIMELESS: Metadata = {"title": "x"}


@pytest.mark.parametrize(
    ("since", "until", "kept"),
    [
        ("2024", None, [False, True, True, False]),
        ("2024-02-01", None, [False, True, True, False]),
        ("90d", None, [False, True, True, False]),
        (None, "2023-12", [True, False, False, False]),
        (None, "2023-12-31T00:00", [True, False, False, False]),
        (None, "2024-01-15", [True, True, False, False]),
        ("2023", "2024", [True, True, True, False]),
        ("2024-03-01", "2024-03-01", [False, True, True, False]),
    ],
)
def test_a_document_is_from_its_date_else_its_year_else_its_files_time(
    since: str | None, until: str | None, kept: list[bool]
) -> None:
    condition = date_range_filter(since=since, until=until, now=NOW)
    assert condition is not None
    assert [matches(condition, each) for each in (OLD, THAT_YEAR, FILE, TIMELESS)] == kept


def test_times_that_are_none_or_the_wrong_way_round_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="--since takes a date"):
        date_range_filter(since="yesterday")
    with pytest.raises(UsageError, match="--until takes a date"):
        date_range_filter(until="2024-02-30")
    with pytest.raises(UsageError, match="no time from 2024 to 2023"):
        date_range_filter(since="2024", until="2023")
    assert date_range_filter() is None
