"""Dates as people write them, made into texts that sort in their order.

Read is what can be read in one way only: ISO dates and date-times, also without leading zeros or with other
marks (`2015-6-3`, `2015/06/03`), and dates with the English name of the month (`14-May-2015`, `May 2015`).
The year has four digits. `05/06/2015` is not read: it is a day in May or a day in June.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_NUMBER_OF = {name: i for i, full in enumerate(MONTHS, 1) for name in (full, full[:3])} | {"sept": 9}
_GAP = r"[-\s./,]*"
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_NAME = r"(?P<name>[a-z]{3,9})\.?"
_YEAR = r"(?P<y>\d{4})"
_CLOCK = re.compile(
    r"(?P<h>\d{1,2}):(?P<min>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<part>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[ap])\.?m\.?)?(?:\s*(?P<zone>z|utc|gmt|[+-]\d\d(?::?\d\d)?))?"
)
_DATES = [
    re.compile(pattern)
    for pattern in (
        rf"{_YEAR}(?:(?P<mark>[-/.])(?P<m>\d{{1,2}})(?:(?P=mark)(?P<d>\d{{1,2}}))?)?",
        r"(?P<m>\d{1,2})[-/](?P<y>(?:19|20)\d\d)",
        rf"{_DAY}{_GAP}{_NAME}{_GAP}{_YEAR}",
        rf"{_NAME}{_GAP}(?<![a-z])(?:{_DAY}[-\s./,]+)?{_YEAR}",
        rf"{_YEAR}{_GAP}(?<!\d){_NAME}(?:{_GAP}{_DAY})?",
    )
]
#: A day of the week before a date, and a time of day after it.
_WEEKDAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+")
_TIME = re.compile(r"(?:t|,?\s+)(?=\d{1,2}:)")
#: Three numbers of which the year is not the first: which one is the day is anybody's guess.
_UNSURE = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?:[t\s,].*)?")


def sortable(text: str) -> str | None:
    """A date as a text that sorts by time, as exact as it is given; None for what is not surely a date.

    A time of day with a zone is told in UTC: `2015-06-03T23:00-05:00` is `2015-06-04 04:00:00.000000000`.
    """
    text = " ".join(text.lower().split())
    day, clock = (*_TIME.split(_WEEKDAY.sub("", text, count=1), maxsplit=1), "")[:2]
    try:
        for pattern in _DATES:
            found = pattern.fullmatch(day)
            if found:
                return _spelt({"m": None, "name": None, "d": None, **found.groupdict()}, clock)
        return _otherwise(text.upper())
    except (ValueError, OverflowError):  # there is no such day, or no such time
        return None


def is_unsure(text: str) -> bool:
    """Whether a text is a date whose day and month can be confused, such as `05/06/2015 12:00`."""
    found = _UNSURE.fullmatch(text.strip().lower())
    if not found:
        return False
    low, high = sorted((int(found[1]), int(found[3])))
    return 1 <= low <= 12 and high <= 31


def _spelt(parts: dict[str, str | None], clock: str) -> str | None:
    """The year, month and day that were found, with the time of day behind them."""
    name, day = parts["name"], parts["d"]
    month = _NUMBER_OF.get(name, 0) if name else int(parts["m"] or 0)
    if (name or parts["m"]) and not month:
        return None
    known = date(int(parts["y"] or 0), month or 1, int(day or 1))
    if not clock:
        return known.isoformat()[: 10 if day else 7 if month else 4]
    time = _CLOCK.fullmatch(clock)
    if time is None or not day:
        return None
    hour, half = int(time["h"]), time["half"]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    when = datetime(known.year, known.month, known.day, hour, int(time["min"]), int(time["s"] or 0))
    sign, *zone = re.findall(r"[+-]|\d\d", time["zone"] or "") or ["+"]
    hours, minutes = (*map(int, zone), 0, 0)[:2]
    offset = timedelta(hours=hours, minutes=minutes)
    return _moment(when - offset if sign == "+" else when + offset, int((time["part"] or "").ljust(9, "0")))


def _otherwise(text: str) -> str:
    """The further ways that ISO has: `20150603`, `2015-W23-3`, `20150603T1200`."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo is None else when.astimezone(UTC).replace(tzinfo=None)
        return _moment(when, 1000 * when.microsecond)


def _moment(when: datetime, nanoseconds: int) -> str:
    return f"{when.replace(microsecond=0).isoformat(sep=' ')}.{nanoseconds:09d}"
