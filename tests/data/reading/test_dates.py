"""Dates are read where they can be read in one way only, and then sort by time."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest

from ciga.data.reading.dates import is_unsure, sortable


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2015", "2015"),
        ("2015-06", "2015-06"),
        ("2015-06-03", "2015-06-03"),
        ("2015-6-3", "2015-06-03"),
        ("2015/06/03", "2015-06-03"),
        ("20150603", "2015-06-03"),
        ("2015-W23-3", "2015-06-03"),
        ("6/2015", "2015-06"),
        ("14-May-2015", "2015-05-14"),
        ("14MAY2015", "2015-05-14"),
        ("3rd June, 2015", "2015-06-03"),
        ("May 2015", "2015-05"),
        ("Sept. 2015", "2015-09"),
        ("June 3, 2015", "2015-06-03"),
        ("2015-Jun-3", "2015-06-03"),
        ("2015-06-03T12:30", "2015-06-03 12:30:00.000000000"),
        ("2015-6-3 1:30 pm", "2015-06-03 13:30:00.000000000"),
        ("2015-06-03 12:00:00.000000001", "2015-06-03 12:00:00.000000001"),
        ("20150603T1200Z", "2015-06-03 12:00:00.000000000"),
        ("2015-06-03T23:00-05:00", "2015-06-04 04:00:00.000000000"),
        ("Wed, 03 Jun 2015 12:00:00 GMT", "2015-06-03 12:00:00.000000000"),
    ],
)
def test_what_can_be_read_in_one_way_is_read(text: str, day: str) -> None:
    assert sortable(text) == day


@pytest.mark.parametrize("text", ["05/06/2015", "5/14/2015 12:00", "31.12.2001", "1-2-15"])
def test_day_and_month_that_can_be_confused_are_not_read(text: str) -> None:
    assert sortable(text) is None
    assert is_unsure(text)


@pytest.mark.parametrize(
    "text",
    ["", "unknown", "14-May-15", "2015-02-30", "2015-13-01", "0000-01-01", "2015-06-03 25:00", "2015 12:00",
     "May", "MAR1001", "64-17-5", "1.2.3", "week 7", "9999-12-31T23:00-05:00", "2015-06-03 0:30 am"],
)  # fmt: skip
def test_what_is_no_date_is_not_taken_for_one(text: str) -> None:
    assert sortable(text) is None
    assert not is_unsure(text)


def test_the_order_is_that_of_time_however_dates_are_written() -> None:
    draw = random.Random(0)
    days = [datetime(1990, 1, 1) + timedelta(days=draw.randrange(12_000)) for _ in range(300)]
    for spelling in ("%Y-%m-%d", "%d-%b-%Y", "%B %d, %Y", "%Y/%m/%d %H:%M:%S", "%Y%m%dT%H%M"):
        keys = [str(sortable(f"{day:{spelling}}")) for day in days]
        assert sorted(range(300), key=keys.__getitem__) == sorted(range(300), key=days.__getitem__)
    bare = [f"{day.year}-{day.month}-{day.day}" for day in days]
    assert [sortable(text) for text in bare] == [f"{day:%Y-%m-%d}" for day in days]
