from __future__ import annotations

import pytest

from ciga.data.reading.cleaning import Rows, canonical, clean_labels, clean_order, lone, names_of, number
from ciga.errors import CigaError


def rows_of(**cells: list[str]) -> Rows:
    count = len(next(iter(cells.values())))
    return Rows(dict(cells), [("a.csv", i + 2) for i in range(count)], [""] * count, files=["a.csv"])


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("01", "1"),
        ("-0.50", "-0.5"),
        ("1e3", "1000"),
        ("yes", "yes"),
        ("inf", "inf"),
        ("12345678901234567890", "12345678901234567890"),
    ],
)
def test_one_spelling_for_equal_labels(text: str, spelling: str) -> None:
    assert canonical(text) == spelling


def test_numbers_are_finite() -> None:
    assert [number(t) for t in ("2", "nan", "inf", "x", "-1e-3")] == [2.0, None, None, None, -0.001]


def test_names_are_in_the_order_of_numbers_or_of_the_alphabet() -> None:
    assert names_of(["10", "9", "-1", "9"]) == ("-1", "9", "10")
    assert names_of(["10", "9", "b"]) == ("10", "9", "b")


def test_labels_nobody_else_has() -> None:
    assert lone(["a", "b", "a", "c", "a"], "label") == [1, 3]
    assert lone(["a", "b"], "label") == [0, 1]


def test_measurements_are_no_classes() -> None:
    with pytest.raises(CigaError, match=r"3 of 5 labels in column 'pIC50' occur once only.*threshold"):
        lone(["5.1", "6.2", "7.3", "5.5", "5.5"], "pIC50")


def test_threshold_cuts_in_two() -> None:
    rows = rows_of(label=["4.9", "5.0", "x", "7", "1"])
    clean_labels(rows, "pIC50", threshold=5)
    assert rows.cells["label"] == ["0", "1", "1", "0"]
    assert [(r.row, r.reason, r.value) for r in rows.rejected] == [(4, "label is not a number", "x")]


def test_one_class_is_an_error() -> None:
    with pytest.raises(CigaError, match="one class only"):
        clean_labels(rows_of(label=["1", "1.0", "1"]), "label", None)


def test_a_few_words_among_numbers_are_bad_rows() -> None:
    rows = rows_of(key=["2001", "2002", "soon", "2003"])
    clean_order(rows, "year")
    assert rows.cells["key"] == ["2001", "2002", "2003"]
    assert rows.rejected[0].reason == "year is not a number"


@pytest.mark.parametrize("time", [True, False])
@pytest.mark.parametrize(
    ("key", "order"),
    [
        (["2001-05", "2002-01", "2001-12-03"], [0, 2, 1]),
        (["Mar 2019", "Jan 2019", "Dec 2005"], [2, 1, 0]),
        (["2015-10-1", "2015-6-3", "2015-6-21"], [1, 2, 0]),
        (["2-May-2015", "14-May-2015", "30-Apr-2015"], [2, 0, 1]),
        (["2016", "2015-06-03", "2015-12"], [1, 2, 0]),
    ],
)
def test_dates_are_ordered_by_time(key: list[str], order: list[int], time: bool) -> None:
    rows = rows_of(key=key)
    clean_order(rows, "date", time=time)
    assert sorted(range(len(key)), key=rows.cells["key"].__getitem__) == order


@pytest.mark.parametrize("time", [True, False])
@pytest.mark.parametrize(
    ("key", "says"),
    [
        (["2015-06-03", "05/06/2015"], "row 3: '05/06/2015' in column 'date' is a date whose day and month"),
        (["31.12.2001", "1.1.2002"], "row 2: '31.12.2001' in column 'date' is a date whose day and month"),
        (["5/14/2015 12:00", "5/15/2015 9:00"], "row 2: '5/14/2015 12:00' in column 'date'"),
        (["May 2015", "Jan 2019", "later"], "row 4: 'later' in column 'date' is not a date that can be read"),
        (["2015-06-31", "2015-06-01", "2015-06-02"], "row 2: '2015-06-31' in column 'date' is not a date"),
    ],
)
def test_what_is_surely_no_date_among_dates_is_refused(key: list[str], says: str, time: bool) -> None:
    with pytest.raises(CigaError, match=r"a\.csv, row .*: write dates as YYYY-MM-DD\.$") as refused:
        clean_order(rows_of(key=key), "date", time=time)
    assert says in str(refused.value)


def test_other_text_has_an_order_but_no_time() -> None:
    rows = rows_of(key=["batch b", "batch a", "May 2015", "12"])
    clean_order(rows, "batch")
    assert rows.cells["key"] == ["batch b", "batch a", "May 2015", "12"]
    with pytest.raises(CigaError, match="row 2: 'batch b' in column 'batch' is not a date"):
        clean_order(rows, "batch", time=True)


def test_rows_set_aside_are_listed_in_the_order_of_the_file() -> None:
    rows = rows_of(label=["1", "?", "1", "!"])
    assert rows.drop({3: ("odd", "!", "do this")}) == [0, 1, 2]
    assert rows.drop({1: ("odd", "?", "do this")}) == [0, 2]
    assert [str(r) for r in rows.listed()] == [
        "a.csv, row 3: odd ('?'): do this",
        "a.csv, row 5: odd ('!'): do this",
    ]


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(CigaError, match="No row can be used: 2 rows: 2 x odd"):
        rows_of(label=["1", "2"]).drop({0: ("odd", "1", ""), 1: ("odd", "2", "")})
