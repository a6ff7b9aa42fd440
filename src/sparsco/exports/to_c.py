"""C99: one file without allocation and without dependencies beyond the standard library."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable
from typing import Any

from ..streams.features import FINGERPRINT
from ..text.fingerprints import fingerprints, to_bytes
from ..text.spec import WEIGHTINGS, WORD
from .document import character_tables
from .literals import c_number, c_text, identifier
from .scorer import (
    COLUMNS,
    EXP,
    LOGISTIC,
    NAMES,
    NONE,
    ONE,
    SHARES,
    SOFTMAX,
    TEXT,
    Category,
    Date,
    Scorer,
    Term,
    Text,
)

_HEAD = """/* A linear model with %d features, written by sparsco.  C99; link with -lm.  Nothing is allocated.

   Functions that take a row return 0 for a row that cannot be scored (a number that is not finite or beyond 1e75, a
   missing cell that is refused, a text that is not UTF-8), and else 1. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
%s
"""


def to_c(scorer: Scorer, prefix: str = "model") -> str:
    """Return the source of one C99 file; all its names begin with the prefix."""
    identifier(prefix, "prefix")
    writer = {COLUMNS: _columns, NAMES: _names}.get(scorer.kind, _table)
    body = "\n".join([_model(scorer), *writer(scorer), *_predictions(scorer)])
    needs_memory = scorer.kind == NAMES and scorer.hash is None or any(isinstance(p, Category) for p in scorer.parts)
    head = _HEAD % (len(scorer.names), "#include <string.h>\n" if needs_memory else "")
    return head + re.sub(r"\bP_(?=\w)", f"{prefix}_", body)


def _piece(name: str) -> str:
    return importlib.resources.files(f"{__package__}.runtime").joinpath(f"{name}.c").read_text("utf-8")


def _array(type: str, name: str, items: Iterable[str], static: bool = True) -> str:
    """Return an array of constants; C has no empty ones, so one item stands in for none."""
    lines, line = list[str](), ""
    for item in items:
        if len(line) + len(item) > 110:
            lines.append(line.rstrip())
            line = ""
        line += item + ", "
    lines = [*lines, line.rstrip()] if line else lines
    body = "\n  ".join(lines) or "0"
    return f"{'static ' if static else ''}const {type} {name}[] = {{\n  {body}\n}};\n"


def _model(scorer: Scorer) -> str:
    """Return names, weights and the dense entry point."""
    n, m, k = len(scorer.names), len(scorer.intercepts), len(scorer.classes or ())
    flat = [c_number(weight) for weight in scorer.weights.ravel().tolist()]
    parts = [
        f"enum {{ P_FEATURES = {n}, P_SLOTS = {max(n, 1)}, P_OUTPUTS = {m}, P_CLASSES = {k} }};\n",
        _array("char *const", "P_feature_names", map(c_text, scorer.names), static=False),
        _array("double", "P_weights", flat),
        _array("double", "P_intercepts", map(c_number, scorer.intercepts.tolist())),
        _NOTHING if n == 0 else _dense_of_one(n) if m == 1 else _DENSE,
    ]
    if scorer.classes is not None:
        labels = [c_text(str(label)) for label in scorer.classes]
        parts.insert(2, _array("char *const", "P_labels", labels, static=False))
    return "\n".join(parts)


_DENSE_ONE = """/* The score of a row by the values of the selected features, in the order of P_feature_names. */
void P_dense(const double *x, double *scores) {
  double a = P_intercepts[0], b = 0.0, c = 0.0, d = 0.0;
%s  scores[0] = (a + b) + (c + d);
}
"""
_BY_FOUR = """  size_t j;
  for (j = 0; j < %d; j += 4) {
    a += P_weights[j] * x[j];
    b += P_weights[j + 1] * x[j + 1];
    c += P_weights[j + 2] * x[j + 2];
    d += P_weights[j + 3] * x[j + 3];
  }
"""
_DENSE = """/* The scores of a row by the values of the selected features, in the order of P_feature_names. */
void P_dense(const double *x, double *scores) {
  size_t j, k;
  for (k = 0; k < P_OUTPUTS; k++) scores[k] = P_intercepts[k];
  for (j = 0; j < P_FEATURES; j++) {
    for (k = 0; k < P_OUTPUTS; k++) scores[k] += P_weights[j * P_OUTPUTS + k] * x[j];
  }
}
"""
_NOTHING = """/* The scores of a row; no feature has a weight. */
void P_dense(const double *x, double *scores) {
  size_t k;
  (void)x;
  for (k = 0; k < P_OUTPUTS; k++) scores[k] = P_intercepts[k];
}
"""
_ADD = """static void P_add(size_t feature, double value, double *scores) {
  size_t k;
  for (k = 0; k < P_OUTPUTS; k++) scores[k] += P_weights[feature * P_OUTPUTS + k] * value;
}

static void P_begin(double *scores) {
  size_t k;
  for (k = 0; k < P_OUTPUTS; k++) scores[k] = P_intercepts[k];
}
"""
_SPARSE = """/* The scores of a sparse row: n columns, in any order, and their values. */
int P_sparse(const int64_t *columns, const double *values, size_t n, double *scores) {
  size_t i;
  P_begin(scores);
  for (i = 0; i < n; i++) {
    size_t low = 0, high = P_SLOTS;
    if (!(fabs(values[i]) <= 1e75)) return 0;
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (P_columns[middle] < columns[i]) low = middle + 1;
      else high = middle;
    }
    if (low < P_SLOTS && P_columns[low] == columns[i]) P_add(low, values[i], scores);
  }
  return 1;
}
"""
_NAMED = """/* The scores of a row of n names, which need no NUL at their ends, and their values. */
int P_named(const char *const *names, const size_t *lengths, const double *values, size_t n, double *scores) {
  size_t i;
  P_begin(scores);
  for (i = 0; i < n; i++) {
    if (!(fabs(values[i]) <= 1e75)) return 0;
    %s
  }
  return 1;
}
"""


def _dense_of_one(n: int) -> str:
    """Return the dense entry point of one output: four sums side by side, and the last features one by one."""
    loop = _BY_FOUR % (n & ~3) if n >= 4 else ""
    rest = "".join(f"  {to} += P_weights[{j}] * x[{j}];\n" for to, j in zip("abc", range(n & ~3, n), strict=False))
    return _DENSE_ONE % (loop + rest)


def _columns(scorer: Scorer) -> list[str]:
    return [_array("int64_t", "P_columns", map(str, scorer.columns or (-1,))), _ADD, _SPARSE]


def _names(scorer: Scorer) -> list[str]:
    if scorer.hash is not None:
        one = 'P_add_key(P_key("", 0, (const unsigned char *)names[i], lengths[i], 0), values[i], scores);'
        return [_ADD, *_hashing(scorer), _NAMED % one]
    own = sorted((to_bytes(name), name, k) for k, name in enumerate(scorer.names))
    table = [f"{{ {c_text(name)}, {len(raw)}, {k} }}" for raw, name, k in own]
    find = f"size_t place = P_find(P_names, {len(own)}, names[i], lengths[i]);\n"
    add = f"    if (place < {len(own)}) P_add(P_names[place].feature, values[i], scores);"
    parts = [_ADD, _piece("texts_find"), _array("P_entry", "P_names", table or ['{ "", 0, 0 }']), _NAMED % (find + add)]
    return parts


def _hashing(scorer: Scorer) -> list[str]:
    """Return what hashes names, into columns if the model does."""
    hashed = scorer.hash
    if hashed is None:
        seed = scorer.texts[0].seed if scorer.texts else 0
        return [f"#define P_SEED {seed}u\n", _piece("hashing")]
    own = scorer.columns or (-1,)
    limits = f"enum {{ P_BITS = {hashed.bits}, P_SIGNED = {int(hashed.signed)}, P_KEYS = {len(own)} }};\n"
    limits += f"#define P_SEED {hashed.seed}u\n"
    columns = _array("int64_t", "P_columns", map(str, own))
    return [limits, _piece("hashing"), columns, _piece("hashed")]


def _table(scorer: Scorer) -> list[str]:
    """Return the entry point of tables and texts."""
    texts, categories = scorer.texts, [part for part in scorer.parts if isinstance(part, Category)]
    parts = [_ADD] if scorer.parts else [_ADD[_ADD.index("static void P_begin") :]]
    if texts or any(part.hashed for part in categories):
        parts += _hashing(scorer)
    if texts:
        parts += _texts(scorer)
    if categories:
        parts.append(_piece("texts_find"))
    if scorer.kind == TEXT:
        return [*parts, _TEXT]
    fields, steps = list[str](), list[str]()
    for number, part in enumerate(scorer.parts):
        field = f"c{number}_" + re.sub(r"[^A-Za-z0-9]", "_", part.name)[:40]
        declared, step, table = _of_part(part, field, number, texts)
        fields.append(f"  {declared};")
        steps.append(step)
        parts += [table] if table else []
    names = _array("char *const", "P_column_names", (c_text(part.name) for part in scorer.parts), static=False)
    if texts or categories:
        parts.append(_CELL)
    memory = ", uint64_t *workspace" if texts else ""
    return [
        *parts,
        names,
        "/* A row of the table; the columns are in the order of P_column_names. */",
        "typedef struct {\n" + ("\n".join(fields) or "  char none;") + "\n} P_row;\n",
        f"/* The scores of a row. */\nint P_score(const P_row *row{memory}, double *scores) {{\n  P_begin(scores);\n"
        + ("" if steps else "  (void)row;\n")
        + "".join(steps)
        + "  return 1;\n}\n",
    ]


_CELL = """/* A text; bytes is NULL where it is missing.  It needs no NUL at its end. */
typedef struct { const char *bytes; size_t length; } P_cell;
"""
_TEXT = """/* The scores of a text of UTF-8; the workspace has P_workspace(length) numbers. */
int P_score(const char *text, size_t length, uint64_t *workspace, double *scores) {
  P_begin(scores);
  return P_add_text(&P_rules[0], text, length, workspace, scores);
}
"""


def _adds(term: Term | None, value: str, indent: str) -> str:
    if term is None:
        return ""
    return f"{indent}P_add({term[0]}, {'-' if term[1] < 0 else ''}{value}, scores);\n"


def _of_part(part: Any, field: str, number: int, texts: list[Text]) -> tuple[str, str, str]:
    """Return the field of a column, the code that adds its features, and its table if it has one."""
    cell = f"row->{field}"
    if isinstance(part, Text):
        rule = f"&P_rules[{texts.index(part)}]"
        call = f"P_add_text({rule}, {cell}.bytes, {cell}.length, workspace, scores)"
        return f"P_cell {field}", f"  if ({cell}.bytes && !{call}) return 0;\n", ""
    if isinstance(part, Category):
        return _of_category(part, field, number)
    if isinstance(part, Date):
        return f"int64_t {field}; /* microseconds since 1970 in UTC; INT64_MIN: missing */", _of_date(part, cell), ""
    missing = "    return 0;\n" if part.fill is None else _adds(part.value, c_number(part.fill), "    ")
    check = f"!({cell} == 0.0 || {cell} == 1.0)" if part.boolean else f"!(fabs({cell}) <= 1e75)"
    check, value = (f"!({cell} > 0.0 && {cell} <= 1e75)", f"log({cell})") if part.log else (check, cell)
    step = (
        f"  if ({cell} != {cell}) {{\n{missing}{_adds(part.hole, '1.0', '    ')}  }} else {{\n"
        f"    if ({check}) return 0;\n{_adds(part.value, value, '    ')}  }}\n"
    )
    return f"double {field}; /* NAN: missing */", step, ""


def _cases(terms: Iterable[Term | None]) -> str:
    """Return the cases of a switch that add features, by their number."""
    lines = ((k, _adds(term, "1.0", "        ")) for k, term in enumerate(terms) if term is not None)
    return "".join(f"      case {k}:\n{line}        break;\n" for k, line in lines)


def _of_date(part: Date, cell: str) -> str:
    missing = "    return 0;\n" if part.fill is None else _adds(part.value, c_number(part.fill), "    ")
    day = "86400000000"
    months, weekdays = _cases(part.months), _cases(part.weekdays)
    # the month of a day by Euclidean years that begin in March: days of era, year of era, day of year
    month = (
        "    int64_t shifted = days + 719468;\n"
        "    int64_t era = shifted - (shifted % 146097 + 146097) % 146097;\n"
        "    int64_t doe = shifted - era;\n"
        "    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;\n"
        "    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);\n"
        "    switch (((5 * doy + 2) / 153 + 2) % 12) {\n" + months + "      default:\n        break;\n    }\n"
    )
    weekday = "    switch (((days + 3) % 7 + 7) % 7) {\n" + weekdays + "      default:\n        break;\n    }\n"
    needs_days = bool(months or weekdays)
    return (
        f"  if ({cell} == INT64_MIN) {{\n{missing}{_adds(part.hole, '1.0', '    ')}  }} else {{\n"
        + (f"    int64_t days = {cell} / {day} - ({cell} % {day} < 0);\n" if needs_days else "")
        + (month if months else "")
        + (weekday if weekdays else "")
        + _adds(part.value, f"((double)({cell} - INT64_C({part.origin}) * {day}) / {day}.0)", "    ")
        + "  }\n"
    )


def _of_category(part: Category, field: str, number: int) -> tuple[str, str, str]:
    """Return field, code and table of a column of categories.

    The table has the categories with a term, those of the pool (or outside of it), and the marks of missing cells,
    each with the number of its case.
    """
    cell, cases, of_text = f"row->{field}", dict[Any, int](), dict[str, int]()

    def case(what: Any) -> int:
        return cases.setdefault(what, len(cases))

    for text in part.pooled:
        of_text[text] = case(None if part.pools_others else part.pool)
    for text, term in part.terms.items():
        of_text[text] = case(term)
    for text in part.marks:
        of_text[text] = case(("missing", part.hole))
    rows = sorted((to_bytes(text), text, number_of) for text, number_of in of_text.items())
    table = [f"{{ {c_text(text)}, {len(raw)}, {number_of} }}" for raw, text, number_of in rows]
    others = _adds(part.pool, "1.0", "        ") if part.pools_others else ""
    if part.hashed and not part.pools_others:
        head = f"P_key({c_text(part.name + '=')}, {len(to_bytes(part.name + '='))}"
        others = f"        P_add_key({head}, (const unsigned char *){cell}.bytes, {cell}.length, 0), 1.0, scores);\n"
    lines = ""
    for what, number_of in cases.items():
        term = what[1] if isinstance(what, tuple) and what[0] == "missing" else what
        lines += f"      case {number_of}:\n{_adds(term, '1.0', '        ')}        break;\n"
    name, n = f"P_c{number}", len(rows)
    look = f"size_t place = P_find({name}, {n}, {cell}.bytes, {cell}.length);\n"
    look += f"    switch (place < {n} ? {name}[place].feature : {len(cases)}) {{\n"
    step = (
        f"  if (!{cell}.bytes) {{\n{_adds(part.hole, '1.0', '    ')}  }} else {{\n    {look}{lines}"
        f"      default:\n{others}        break;\n    }}\n  }}\n"
    )
    return f"P_cell {field}", step, _array("P_entry", name, table or ['{ "", 0, 0 }'])


def _texts(scorer: Scorer) -> list[str]:
    """Return the code and the tables of texts."""
    texts = scorer.texts
    hashed = scorer.hash is not None
    ngrams = max(text.spec.lengths[1] - text.spec.lengths[0] + 2 for text in texts)
    by_word = {text.spec.analyzer == WORD for text in texts}
    add, document = "P_add_key(counts.keys[i], value, scores)", "P_column_of(key)"
    if not hashed:
        document = "key & P_NAME_BITS"
        add = (
            "size_t place = P_find_key(rule->places, rule->n_places, counts.keys[i] & P_NAME_BITS);\n"
            "    if (place < rule->n_places) P_add(rule->places[place].feature, value, scores)"
        )
    parts = [
        f"enum {{ P_NGRAMS = {ngrams} }};\n#define P_NAME_BITS UINT64_C({FINGERPRINT})\n",
        _piece("keys"),
        _piece("words"),
        *([_piece("by_word")] if True in by_word else []),
        *([_piece("by_character")] if False in by_word else []),
        _piece("counting").replace("P_ADD_KEY", add).replace("P_DOCUMENT_KEY", document),
    ]
    options = list(dict.fromkeys((text.spec.lowercase, text.spec.strip_accents) for text in texts))
    parts += [table for k, each in enumerate(options) for table in _characters(k, *each)]
    rules = []
    for k, text in enumerate(texts):
        keys = fingerprints([text.spec.prefix + token for token in text.terms], text.seed) & FINGERPRINT
        places = zip(keys.tolist(), (feature for feature, _ in text.terms.values()), strict=True)
        parts += [_places(f"P_places{k}", places), _places(f"P_documents{k}", (text.documents or {}).items())]
        rules.append(_rule(k, text, options.index((text.spec.lowercase, text.spec.strip_accents))))
    return [*parts, _array("P_rule", "P_rules", rules), _WORKSPACE]


_WORKSPACE = """/* The number of uint64_t that texts of at most this many bytes need. */
size_t P_workspace(size_t length) {
  size_t entries = length * P_NGRAMS;
  return 2 * entries + (size_t)P_slots(entries) + 2 * length + length / 4 + 4;
}
"""


def _characters(number: int, lowercase: bool, strip_accents: bool) -> list[str]:
    tables, at, runs = character_tables(lowercase, strip_accents), 0, list[str]()
    for length, kind in zip(tables["classes"][::2], tables["classes"][1::2], strict=True):
        runs.append(str(at << 3 | kind))
        at += length
    folds = tables["folds"]
    ranges = [f"{{{', '.join(map(str, folds[k : k + 4]))}}}" for k in range(0, len(folds), 4)]
    whole = f"{{ P_runs{number}, {len(runs)}, P_folds{number}, {len(ranges)} }}"
    return [
        _array("uint32_t", f"P_runs{number}", runs),
        _array("P_fold", f"P_folds{number}", ranges or ["{0, 0, 1, 0}"]),
        f"static const P_characters P_characters{number} = {whole};\n",
    ]


def _places(name: str, pairs: Iterable[tuple[int, int]]) -> str:
    """Return a table from keys to numbers, in the order of the keys."""
    return _array("P_place", name, [f"{{UINT64_C({key}), {value}}}" for key, value in sorted(pairs)] or ["{0, 0}"])


def _rule(number: int, text: Text, characters: int) -> str:
    spec, (low, high) = text.spec, text.spec.lengths
    has_shapes = spec.shapes and spec.analyzer == WORD and low == 1
    fields = [
        c_text(spec.prefix),
        len(to_bytes(spec.prefix)),
        low,
        high,
        int(has_shapes),
        WEIGHTINGS.index(spec.weighting),
        int(spec.norm),
        "P_words" if spec.analyzer == WORD else "P_letters",
        f"&P_characters{characters}",
        f"P_places{number}",
        f"P_documents{number}",
        len(text.terms),
        len(text.documents or ()),
        f"{text.texts}.0",
    ]
    return "{ " + ", ".join(map(str, fields)) + " }"


# ---- predictions ---------------------------------------------------------------------------------------------------


def _predictions(scorer: Scorer) -> list[str]:
    """Return the functions from scores to predictions."""
    m = len(scorer.intercepts)
    if scorer.classes is None:
        number = "exp(scores[k])" if scorer.link == EXP else "scores[k]"
        return [
            "/* The predicted numbers. */\nvoid P_predict(const double *scores, double *numbers) {\n  size_t k;\n"
            f"  for (k = 0; k < P_OUTPUTS; k++) numbers[k] = {number};\n}}\n"
        ]
    if m == 1:
        label = "  (void)scores;\n  return 0;\n" if len(scorer.classes) == 1 else "  return scores[0] > 0.0;\n"
    else:
        label = "  size_t k, best = 0;\n  for (k = 1; k < P_OUTPUTS; k++) {\n"
        label += "    if (scores[k] > scores[best]) best = k;\n  }\n  return (int)best;\n"
    parts = [f"/* The number of the label, in P_labels. */\nint P_label(const double *scores) {{\n{label}}}\n"]
    if scorer.link == NONE:
        return parts
    scale = "" if scorer.platt is None or scorer.link == ONE else _PLATT
    link = SHARES if scale and m > 1 else scorer.link
    odds = _ODDS if scale and scorer.link == SOFTMAX else ""
    each = "scaled" if scale else "scores"
    code = ""
    if scale and scorer.platt is not None:
        flat = map(c_number, scorer.platt.ravel().tolist())
        parts.append(_array("double", "P_platt", flat))
        odds_of = "P_odds(scores, k)" if odds else "scores[k]"
        code += scale.replace("ODDS", odds_of)
    code += _LINKS[link].replace("EACH", each)
    if not scale and scorer.class_weights is not None and scorer.link != ONE:
        parts.append(_array("double", "P_class_weights", map(c_number, scorer.class_weights.tolist())))
        code += _CORRECTED
    if link != ONE and link != LOGISTIC or "total" in code:
        code = "  double total = 0.0;\n" + code
    if re.search(r"\bk\b", code):
        code = "  size_t k;\n" + code
    head = "/* The probability of each class, in the order of P_labels. */\n"
    head += "void P_probabilities(const double *scores, double *probabilities) {\n"
    return [*parts, *([odds] if odds else []), head + code + "}\n"]


_PLATT = """  double scaled[P_OUTPUTS];
  for (k = 0; k < P_OUTPUTS; k++) scaled[k] = P_platt[k] * ODDS + P_platt[P_OUTPUTS + k];
"""
_ODDS = """static double P_odds(const double *scores, size_t k) {
  double top = -HUGE_VAL, sum = 0.0;
  size_t j;
  for (j = 0; j < P_OUTPUTS; j++) {
    if (j != k && scores[j] > top) top = scores[j];
  }
  for (j = 0; j < P_OUTPUTS; j++) {
    if (j != k) sum += exp(scores[j] - top);
  }
  return scores[k] - top - log(sum);
}
"""
_LINKS = {
    ONE: "  (void)scores;\n  probabilities[0] = 1.0;\n",
    LOGISTIC: """  probabilities[0] = 1.0 / (1.0 + exp(EACH[0]));
  probabilities[1] = 1.0 / (1.0 + exp(-EACH[0]));
""",
    SHARES: """  for (k = 0; k < P_CLASSES; k++) total += probabilities[k] = 1.0 / (1.0 + exp(-EACH[k]));
  for (k = 0; k < P_CLASSES; k++) probabilities[k] = total > 0.0 ? probabilities[k] / total : 1.0 / P_CLASSES;
""",
    SOFTMAX: """  double top = EACH[0];
  for (k = 1; k < P_CLASSES; k++) top = EACH[k] > top ? EACH[k] : top;
  for (k = 0; k < P_CLASSES; k++) total += probabilities[k] = exp(EACH[k] - top);
  for (k = 0; k < P_CLASSES; k++) probabilities[k] /= total;
""",
}
_CORRECTED = """  total = 0.0;
  for (k = 0; k < P_CLASSES; k++) total += probabilities[k] /= P_class_weights[k];
  for (k = 0; k < P_CLASSES; k++) probabilities[k] /= total;
"""
