"""SQL: one query over a table of raw columns, the same for SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import sql_dates
from .literals import json_text, sql_name, sql_number, sql_text
from .scorer import (
    COLUMNS,
    EXP,
    NONE,
    ONE,
    SOFTMAX,
    TABLE,
    Category,
    Date,
    ExportError,
    Numbers,
    Scorer,
    Text,
)

_LIMIT, _LEAST = "7.0978e2", "(-7.45e2)"
"""The largest x and the smallest one whose exponential is a number above 0; PostgreSQL raises an error beyond them."""
_HUGE = "1e75"
_APART = " limit 9223372036854775807"
"""A limit that no table reaches: PostgreSQL would put the expressions of a query into the one around it, many times."""
_WITHOUT_EXP = "-- Without the function exp there are no probabilities and no means: these are scores.\n"


def to_sql(scorer: Scorer, table: str = "data", keep: Sequence[str] = (), exp: bool = True) -> str:
    """Return a query; ``keep`` names columns to copy, ``exp`` is False for a database without this function."""
    if scorer.kind not in (COLUMNS, TABLE):
        what = "one text" if scorer.parts else "names with values"
        raise ExportError(f"the rows of this model are {what}, not columns of a table: SQL cannot split or hash them.")
    kept = [keep] if isinstance(keep, str) else list(keep)
    if not exp and any(isinstance(part, Numbers) and part.log for part in scorer.parts):
        raise ExportError("the offset of this model is a logarithm, and a database without exp has none.")
    query = _cells(scorer, table, kept)
    scores = ["score"] if len(scorer.intercepts) == 1 else [f"score_{k + 1}" for k in range(len(scorer.intercepts))]
    carried = [f"k{number}" for number in range(len(kept))]
    dates = [number for number, part in enumerate(scorer.parts) if isinstance(part, Date)]
    if dates:
        cells = [*carried, *(f"c{number}" for number in range(len(scorer.parts)))]
        fields = [field for number in dates for field in sql_dates.fields_of(number)]
        query = _level(query, cells, fields) + _APART
        days = [sql_dates.day_of(number) for number in dates]
        query = _level(query, [*cells, *(name for _, name in fields)], days) + _APART
    query = _level(query, carried, list(zip(_scores(scorer), scores, strict=True)))
    query += _APART if len(scores) > 1 else ""
    query, more = _link(scorer, query, carried, scores, exp)
    results = [*scores, *more]
    if len({name.lower() for name in [*kept, *results]}) < len(kept) + len(results):
        raise ExportError(f"keep has {', '.join(kept)}: each must be another column than {', '.join(results)}.")
    items = [f"s.{short} as {sql_name(name)}" for short, name in zip(carried, kept, strict=True)]
    select = ", ".join([*items, *(f"s.{name}" for name in results)])
    return _head(scorer, more, exp) + f"select {select} from (\n{query}\n) as s\n"


def _head(scorer: Scorer, more: list[str], exp: bool) -> str:
    lines = f"-- A linear model with {len(scorer.names)} features, written by sparsco.\n"
    if scorer.classes is not None and len(scorer.intercepts) > 1:
        lines += f"-- The classes in their order: {json_text([str(label) for label in scorer.classes])}\n"
    elif "probability" in more and scorer.classes is not None:
        lines += f"-- The probability is that of {json_text(str(scorer.classes[-1]))}.\n"
    has_link = scorer.link not in (NONE, ONE) and (scorer.classes is not None or scorer.link == EXP)
    if has_link and not exp:
        return lines + _WITHOUT_EXP
    needs = "-- exp is missing in an SQLite without mathematical functions: export with exp=False (--no-exp) for it.\n"
    return lines + needs if has_link else lines


def _level(query: str, carried: Sequence[str], new: Sequence[tuple[str, str]]) -> str:
    """Return a query over another one, with some of its columns and new ones."""
    items = [f"s.{name}" for name in carried] + [f"{code} as {name}" for code, name in new]
    return "select\n  " + ",\n  ".join(items) + f"\nfrom (\n{query}\n) as s"


def _sum(terms: Sequence[str]) -> str:
    """Return a sum by halves: databases limit how deep an expression may be."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_sum(terms[:middle])} + {_sum(terms[middle:])})"


# ---- cells ---------------------------------------------------------------------------------------------------------


def _cells(scorer: Scorer, table: str, kept: Sequence[str]) -> str:
    """Return the query for the cells of a table: numbers, and texts, NULL where they are missing."""
    items = [f"d.{sql_name(name)} as k{number}" for number, name in enumerate(kept)]
    if scorer.kind == COLUMNS:
        items += [f"{_number('d.' + sql_name(name))} as c{k}" for k, name in enumerate(scorer.names)]
    for k, part in enumerate(scorer.parts):
        items.append(f"{_cell(part)} as c{k}")
    return "select\n  " + (",\n  ".join(items) or "1 as one") + f"\nfrom {sql_name(table)} as d"


def _number(cell: str) -> str:
    """Return a number; NULL for NaN, infinity and numbers beyond the largest."""
    number = f"cast({cell} as double precision)"
    return f"case when {number} between (-{_HUGE}) and {_HUGE} then {number} end"


def _cell(part: Any) -> str:
    cell = f"d.{sql_name(part.name)}"
    if isinstance(part, Text):
        raise ExportError(f"column {part.name!r} is a text, which SQL cannot split into words.")
    if isinstance(part, Date):
        return sql_dates.text_of(part, cell)
    if isinstance(part, Numbers):
        if part.log:
            return f"case when {_number(cell)} > 0e0 then ln({_number(cell)}) end"
        if not part.boolean:
            return _number(cell)
        truth = f"cast({cell} as integer)"
        return f"case when {truth} in (0, 1) then cast({truth} as double precision) end"
    if part.hashed:
        raise ExportError(f"the categories of column {part.name!r} are hashed, which SQL cannot do.")
    text = f"cast({cell} as text) || ''"  # not a mere column, whose collation would compare
    if not part.marks:
        return text
    return f"case when {text} not in ({', '.join(map(sql_text, part.marks))}) then {text} end"


def _scores(scorer: Scorer) -> list[str]:
    """Return an expression for the score of each output."""
    found = []
    for k, intercept in enumerate(scorer.intercepts.tolist()):
        weights, terms = scorer.weights[:, k].tolist(), [sql_number(intercept)]
        if scorer.kind == COLUMNS:
            terms += [f"{sql_number(weight)} * s.c{j}" for j, weight in enumerate(weights) if weight != 0.0]
        for number, part in enumerate(scorer.parts):
            terms += _terms(part, number, weights)
        found.append(f"cast({_sum(terms)} as double precision)")
    return found


def _terms(part: Any, number: int, weights: list[float]) -> list[str]:
    """Return the terms of a column in the score of one output."""

    def weight(term: Any) -> float:
        return 0.0 if term is None else term[1] * weights[term[0]]

    cell = f"s.c{number}"
    if isinstance(part, Category):
        return _category(part, cell, weight)
    if isinstance(part, Date):
        return sql_dates.terms_of(part, number, weight)
    value, hole, found = weight(part.value), weight(part.hole), []
    if part.fill is None:
        found.append(f"{sql_number(value)} * {cell}")  # NULL makes the score NULL
    elif value != 0.0:
        found.append(f"{sql_number(value)} * coalesce({cell}, {sql_number(part.fill)})")
    if hole != 0.0:
        found.append(f"case when {cell} is null then {sql_number(hole)} else 0e0 end")
    return found


def _category(part: Category, cell: str, weight: Callable[[Any], float]) -> list[str]:
    cases = [("is null", weight(part.hole))] if weight(part.hole) != 0.0 else []
    pool = weight(part.pool)
    for text, term in part.terms.items():
        if weight(term) != 0.0 or pool != 0.0:
            cases.append((f"= {sql_text(text)}", weight(term)))
    if pool != 0.0:
        texts = ", ".join(map(sql_text, part.pooled))
        if part.pools_others:
            cases.append((f"not in ({texts})" if texts else "is not null", pool))
        else:
            cases.append((f"in ({texts})", pool))
    if not cases:
        return []
    lines = "".join(f" when {cell} {test} then {sql_number(value)}" for test, value in cases)
    return [f"case{lines} else 0e0 end"]


# ---- links ---------------------------------------------------------------------------------------------------------


def _link(scorer: Scorer, query: str, carried: list[str], scores: list[str], exp: bool) -> tuple[str, list[str]]:
    """Return the query with probabilities, predictions and labels, and the names of these columns."""
    before = [*carried, *scores]
    if scorer.classes is None:
        if scorer.link != EXP or not exp:
            return query, []
        means = ["prediction"] if len(scores) == 1 else [f"prediction_{k + 1}" for k in range(len(scores))]
        new = [(_exponential(f"s.{each}"), to) for each, to in zip(scores, means, strict=True)]
        return _level(query, before, new), means
    if len(scores) == 1:
        return _link_of_one(scorer, query, before, exp)
    query = _level(query, before, [(_largest([f"s.{score}" for score in scores]), "top")]) + _APART
    cases = "".join(
        f" when s.{score} = s.top then {_label(label)}" for score, label in zip(scores, scorer.classes, strict=True)
    )
    label = f"case{cases} end"
    if scorer.link == NONE or not exp:
        return _level(query, before, [(label, "label")]), ["label"]
    names = [f"probability_{k + 1}" for k in range(len(scores))]
    query = _shares(scorer, query, [*before, "top"], scores) + _APART
    parts = [f"s.e{k}" for k in range(len(scores))]
    weights = scorer.class_weights if scorer.platt is None else None
    if weights is not None:
        parts = [f"{part} / {sql_number(weight)}" for part, weight in zip(parts, weights.tolist(), strict=True)]
    query = _level(query, [*before, "top", *(f"e{k}" for k in range(len(scores)))], [(_sum(parts), "total")])
    even = sql_number(1.0 / len(scores))
    new = [
        (f"case when s.total > 0e0 then {part} / s.total when s.total = 0e0 then {even} end", name)
        for part, name in zip(parts, names, strict=True)
    ]
    return _level(query, before, [*new, (label, "label")]), [*names, "label"]


def _link_of_one(scorer: Scorer, query: str, before: list[str], exp: bool) -> tuple[str, list[str]]:
    """Return the query with the probability of the second class, and the label, of one score."""
    assert scorer.classes is not None
    if len(scorer.classes) == 1:
        label = f"case when s.score is not null then {_label(scorer.classes[0])} end"
        return _level(query, before, [("1e0", "probability"), (label, "label")]), ["probability", "label"]
    low, high = map(_label, scorer.classes)
    label = f"case when s.score > 0e0 then {high} when s.score <= 0e0 then {low} end"
    if scorer.link == NONE or not exp:
        return _level(query, before, [(label, "label")]), ["label"]
    score = "s.score"
    if scorer.platt is not None:
        score = f"({sql_number(scorer.platt[0, 0])} * s.score + {sql_number(scorer.platt[1, 0])})"
    probability = _logistic(score)
    if scorer.platt is None and scorer.class_weights is not None:
        one, other = (sql_number(weight) for weight in scorer.class_weights.tolist())
        high_part, low_part = f"{probability} / {other}", f"{_logistic(f'(-{score})')} / {one}"
        probability = f"({high_part}) / ({high_part} + {low_part})"
    return _level(query, before, [(probability, "probability"), (label, "label")]), ["probability", "label"]


def _shares(scorer: Scorer, query: str, carried: list[str], scores: list[str]) -> str:
    """Return the query with the shares e0, e1, ... of the classes, before they are scaled to a sum of one."""
    own = [f"s.{score}" for score in scores]
    if scorer.platt is None:
        if scorer.link == SOFTMAX:
            return _level(query, carried, [(_below(f"({each} - s.top)"), f"e{k}") for k, each in enumerate(own)])
        return _level(query, carried, [(_logistic(each), f"e{k}") for k, each in enumerate(own)])
    names = [f"o{k}" for k in range(len(own))]
    if scorer.link == SOFTMAX:
        tops = [(_largest(own[:k] + own[k + 1 :]), f"t{k}") for k in range(len(own))]
        query = _level(query, carried, tops) + _APART
        odds = []
        for k, each in enumerate(own):
            others = _sum([_below(f"({other} - s.t{k})") for j, other in enumerate(own) if j != k])
            odds.append((f"{each} - s.t{k} - ln({others})", names[k]))
        query, own = _level(query, carried, odds) + _APART, [f"s.{name}" for name in names]
    slopes, shifts = scorer.platt.tolist()
    scaled = [f"({sql_number(a)} * {each} + {sql_number(b)})" for a, each, b in zip(slopes, own, shifts, strict=True)]
    return _level(query, carried, [(_logistic(each), f"e{k}") for k, each in enumerate(scaled)])


def _largest(items: Sequence[str]) -> str:
    """Return the largest of some expressions; databases have no common function of several arguments for it."""
    rows = " union all select ".join(f"{item} as v" for item in items)
    return f"(select max(t.v) from (select {rows}) as t)"


def _logistic(x: str) -> str:
    return f"case when {x} < (-{_LIMIT}) then 0e0 when {x} > {_LIMIT} then 1e0 else 1e0 / (1e0 + exp(-{x})) end"


def _below(x: str) -> str:
    """Return the exponential of a number that is not above 0."""
    return f"case when {x} < {_LEAST} then 0e0 else exp({x}) end"


def _exponential(x: str) -> str:
    """Return an exponential; NULL where it is beyond the largest number."""
    return f"case when {x} < {_LEAST} then 0e0 when {x} <= {_LIMIT} then exp({x}) end"


def _label(label: Any) -> str:
    if isinstance(label, str):
        return sql_text(label)
    if isinstance(label, bool):
        return "true" if label else "false"
    return str(label) if isinstance(label, int) else sql_number(label)
