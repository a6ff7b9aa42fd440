"""Dates in SQL: by their texts, such as 2021-03-04 10:30:00, since databases have no common functions of dates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .literals import sql_number, sql_text
from .scorer import Date

_DIGITS = "'0123456789'"


def text_of(part: Date, cell: str) -> str:
    """Return the text of a date; NULL where it is missing."""
    text = f"cast({cell} as text) || ''"
    marks = ", ".join(map(sql_text, part.marks))
    return f"case when {text} not in ({marks}) then {text} end" if marks else text


def fields_of(number: int) -> list[tuple[str, str]]:
    """Return year, month, day and seconds of the text c<number>, all NULL where it does not look like a date."""
    t = f"s.c{number}"

    def digits(*places: tuple[int, int]) -> str:
        return f"trim({' || '.join(f'substr({t}, {at}, {n})' for at, n in places)}, {_DIGITS}) = ''"

    def sign(at: int, *signs: str) -> str:
        return f"substr({t}, {at}, 1) in ({', '.join(map(sql_text, signs))})"

    date = f"{digits((1, 4), (6, 2), (9, 2))} and {sign(5, '-')} and {sign(8, '-')}"
    minutes = f"{sign(11, ' ', 'T')} and {digits((12, 2), (15, 2))} and {sign(14, ':')}"
    seconds = f"{minutes} and {sign(17, ':')} and {digits((18, 2))}"
    fraction = f"{seconds} and {sign(20, '.')} and {digits((21, 6))}"
    size = f"length({t})"
    time = f"({size} = 10 or ({size} = 16 and {minutes}) or ({size} = 19 and {seconds}) "
    time += f"or ({size} between 21 and 26 and {fraction}))"
    of_minutes = f"cast(substr({t}, 12, 2) as integer) * 3600 + cast(substr({t}, 15, 2) as integer) * 60"
    of_day = f"case when {size} = 10 then 0e0 when {size} = 16 then {of_minutes} "
    of_day += f"else {of_minutes} + cast(substr({t}, 18, 9) as double precision) end"
    fields = {"y": (1, 4), "m": (6, 2), "a": (9, 2)}
    found = [
        (f"case when {date} and {time} then cast(substr({t}, {at}, {n}) as integer) end", f"{name}{number}")
        for name, (at, n) in fields.items()
    ]
    return [*found, (f"case when {date} and {time} then {of_day} end", f"f{number}")]


def day_of(number: int) -> tuple[str, str]:
    """Return the number n<number> of a date's day since 1970-01-01; NULL if there is no such day."""
    y, m, a = (f"s.{name}{number}" for name in "yma")
    year = f"({y} - case when {m} > 2 then 0 else 1 end)"  # years begin in March: a leap day is their last
    of_months = f"(153 * ({m} + case when {m} > 2 then -3 else 9 end) + 2)"
    # whole numbers are divided after their rest is subtracted: some databases round, and some do not
    leaps = f"({year} - {year} % 4) / 4 - ({year} - {year} % 100) / 100 + ({year} - {year} % 400) / 400"
    day = f"365 * {year} + {leaps} + ({of_months} - {of_months} % 5) / 5 + {a} - 719469"
    is_leap = f"({y} % 4 = 0 and ({y} % 100 <> 0 or {y} % 400 = 0))"
    last = f"case when {m} in (4, 6, 9, 11) then 30 when {m} <> 2 then 31 when {is_leap} then 29 else 28 end"
    is_day = f"{y} >= 1 and {m} between 1 and 12 and {a} between 1 and {last} and s.f{number} < 86400"
    return f"case when {is_day} then {day} end", f"n{number}"


def terms_of(part: Date, number: int, weight: Callable[[Any], float]) -> list[str]:
    """Return the terms of a date in a score; they are NULL if its text is not that of a date."""
    text, day, month = f"s.c{number}", f"s.n{number}", f"s.m{number}"
    hole, value, fill = weight(part.hole), weight(part.value), part.fill
    days = f"({day} - ({part.origin}) + s.f{number} / 8.64e4)"
    if fill is None:
        found = [f"{sql_number(value)} * {days}"]
    else:
        missing = sql_number(value * fill + hole)
        found = [f"case when {text} is null then {missing} else {sql_number(value)} * {days} end"]
    for of_day, terms, first in ((month, part.months, 1), (f"(({day} + 7000003) % 7)", part.weekdays, 0)):
        cases = "".join(
            f" when {of_day} = {k + first} then {sql_number(weight(term))}"
            for k, term in enumerate(terms)
            if weight(term) != 0.0
        )
        if cases:
            found.append(f"case when {text} is null then 0e0 else case{cases} else 0e0 end end")
    return found
