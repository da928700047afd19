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


def test_text_stays_text_but_dates_must_sort() -> None:
    rows = rows_of(key=["2001-05", "2002-01"])
    clean_order(rows, "date")
    assert len(rows) == 2
    with pytest.raises(CigaError, match="YYYY-MM-DD"):
        clean_order(rows_of(key=["31.12.2001", "1.1.2002"]), "date")


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
