"""Descriptions of a model and its training: as numbers, in words, as one HTML page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators.converted import by_names, named_promise
from ..estimators.grouping import group_labels, selected_groups
from ..estimators.summary import Size, choice_in_words, feature_count, promise_in_words, trade_off, turned
from ..estimators.weight_bars import draw_weights
from ..parts.part import is_record
from ..streams.description import listed
from ..streams.features import signs_of
from ..util import html as html
from ..util.axes import page_axes, scale_of_counts
from ..util.notices import in_shell
from ..util.progress import duration, percent, printable
from .labelled_rows import has_empty_first
from .model_checks import used_columns
from .model_fields import description_of, hash_seed_of
from .model_files import intervals_in, restored, stability_of
from .results import Trained, is_squared

_PROMISE_HEADS = {"q_value": "q-value", "probability": "share of halves"}
_SHOWN = 5
"""The number of features of a kind that are listed."""
_JUDGED = {
    "held_out": "held-out rows",
    "progressive": "rows judged before they were learned, by the learner on its way",
    "test": "test rows",
}
"""What figures are of, in words."""
_SPELLED = {"rmse": "root mean squared error", "mae": "mean absolute error"}
_CHOSEN = ("optimizer", "conversion", "penalty", "step_size")


def _spelled(part: Any) -> str:
    """Return a record as text, with arrays by their length."""
    if not is_record(part):
        return str(part)
    fields = {name: f"[{len(value)} numbers]" if np.ndim(value) else value for name, value in part._asdict().items()}
    return f"{type(part).__name__}({', '.join(f'{name}={value}' for name, value in fields.items())})"


def summary(trained: Trained) -> dict[str, Any]:
    """Return a training run as a dict of numbers and words that JSON can hold."""
    model, report = trained.model, trained.model.report_
    is_classifier = model.classifies
    found: dict[str, Any] = {
        "task": "classification" if is_classifier else "regression",
        "rows": trained.rows,
        "passes": int(model.n_iter_),
        "seconds": round(trained.seconds, 3),
        "features": feature_count(model) - has_empty_first(model, trained.stream),
        "nonzeros": int(model.n_nonzero_),
        "selected": model.n_selected_,
        "chosen": {name: _spelled(report[name]) for name in _CHOSEN if report.get(name) is not None},
        "notes": trained.notes,
        "warnings": [*trained.warnings, *report["warnings"]],
        "table": [line._asdict() for line in trained.table],
    }
    if "trimmed" in report:
        found["trimmed"] = report["trimmed"]
    if is_classifier:
        found["classes"] = model.classes_.tolist()
    if model.feature_groups is not None:
        d, names = model.n_features_in_, trained.stream.names
        labels = group_labels(model.feature_groups, [names.get(column, str(column)) for column in range(d)], d)
        found["groups"] = selected_groups(labels, model.convert().used)
    if trained.table:
        last = trained.table[-1]
        found["progressive"] = {"error" if is_classifier else "rmse": last.mean_mistake}
        found["progressive"] |= {} if is_squared(model) else {"loss": last.mean_loss}
    metrics = [model["metric"] for each in report["converted"] for model in each.get("chosen", ())]
    if metrics:
        found["chosen"]["metric"] = ", ".join(dict.fromkeys(metrics))
    if "half_life" in report:
        found["chosen"]["half_life"] = f"{report['half_life']:g}"
    polished = [each["polish"] for each in report["converted"] if "polish" in each]
    if polished:
        passes = sum(each["passes"] for each in polished)
        found["optimum"] = {"gap": model.gap_, "tolerance": polished[0]["tolerance"], "passes": passes}
    if model.convert().stability is not None:
        found["promise"] = named_promise(report["converted"][0]["promise"], by_names(trained.stream.names))
    choice = next((each["choice"] for each in report["converted"] if "choice" in each), None)
    intervals = model.convert().intervals
    if intervals is not None:
        decided = int(np.count_nonzero(~np.isnan(intervals.errors)))
        found["intervals"] = {"level": intervals.level, "weights": decided, "from": intervals.source}
        found["intervals"]["undecided"] = len(intervals.features) - decided
    if choice is not None:
        found["choice"] = choice
        found["sizes"] = [each._asdict() for each in trade_off(model)]
    return found


def _trimmed_in_words(trimmed: Mapping[str, Any]) -> str:
    """Return how many features have left a stream, and when."""
    if not trimmed["times"]:
        return "trimmed: no feature has left"
    times = f"at {trimmed['times']:,} boundaries" if trimmed["times"] > 1 else "at one boundary"
    had = f", {trimmed['selected_left']:,} of them with a weight" if trimmed["selected_left"] else ""
    when = f"the first after example {trimmed['first_at']:,}, the last after {trimmed['last_at']:,}"
    return f"trimmed: {trimmed['left']:,} features have left{had}, {times}, {when}"


def as_text(outcome: Mapping[str, Any]) -> str:
    """Return the outcome of a training run in a few lines, without its warnings, which were given before."""
    rows, seconds = outcome["rows"] * outcome["passes"], outcome["seconds"]
    passes = f"{outcome['passes']} pass" + ("es" if outcome["passes"] > 1 else "")
    lines = [
        f"{outcome['model']}: {outcome['task']}, {outcome['selected']:,} of {outcome['features']:,} features selected",
        f"learned {outcome['rows']:,} rows in {passes}, {duration(seconds)} ({rows / max(seconds, 1e-9):,.0f} rows/s)",
    ]
    lines += _judged_in_words(outcome)
    if "trimmed" in outcome:
        lines.append(_trimmed_in_words(outcome["trimmed"]))
    if "groups" in outcome:
        lines.append(_groups_in_words(outcome["groups"]))
    if "optimum" in outcome:
        lines.append("polished: " + ", ".join(f"{name} {value:.2g}" for name, value in outcome["optimum"].items()))
    if "intervals" in outcome:
        lines.append("{weights:,} intervals of level {level:g}, {from}".format_map(outcome["intervals"]))
        if outcome["intervals"].get("undecided"):
            lines.append(
                f"no interval for {outcome['intervals']['undecided']:,} weights: these rows do not decide them "
                "(combinations of other features, or features that separate the targets)"
            )
    lines += [f"chosen: {printable(note)}" for note in outcome["notes"]]
    if "promise" in outcome:
        lines += _promise_lines(outcome["promise"])
    if "choice" in outcome:
        lines.append(f"chosen: {choice_in_words(outcome['choice'])}")
    lines.append(method(outcome["chosen"]))
    return "\n".join(lines)


def judged(outcome: Mapping[str, Any]) -> list[str]:
    """Return the names of the figures of a training: those of the model, or of the learner on its way."""
    own = "held_out" if "held_out" in outcome else "progressive"
    return [name for name in (own, "test") if name in outcome]


def _judged_in_words(outcome: Mapping[str, Any]) -> list[str]:
    """Return the figures of a training, a line for each kind of rows."""
    return [f"{_JUDGED[name]}: {figures(outcome[name])}" for name in judged(outcome)]


def _promise_lines(promise: Mapping[str, Any]) -> list[str]:
    """Return what is promised of a selection, and which columns could not be judged, in a few lines."""
    lines = [f"promised: {promise_in_words(dict(promise))}"]
    if promise["constant"]:
        some = promise["constant_columns"]
        more = f", and {promise['constant'] - len(some):,} more" if promise["constant"] > len(some) else ""
        lines.append(f"not judged, since columns never vary: {listed([shown(str(name)) for name in some])}{more}")
    if promise["rare"]:
        lines.append(f"not judged, since they occur in few rows: {promise['rare']:,} columns")
    for first, *others in promise["identical"][:_SHOWN]:
        same = listed([shown(str(name)) for name in others])
        lines.append(f"{shown(str(first))} stands for {same}: they are the same")
    if len(promise["identical"]) > _SHOWN:
        lines.append(f"... and {len(promise['identical']) - _SHOWN:,} more that stand for others")
    for one, other, correlation in promise["correlated"][:_SHOWN]:
        lines.append(f"{shown(str(one))} is strongly correlated with {shown(str(other))}: {correlation:.2f}")
    return lines


def _groups_in_words(groups: Mapping[str, Any]) -> str:
    """Return the selected groups of features in one line."""
    names = groups["selected"]
    return f"groups: {len(names):,} of {groups['of']:,} selected" + (f": {listed(names)}" if names else "")


def method(chosen: Mapping[str, str]) -> str:
    """Return the optimizer, conversion, metric and penalty of a run in one line.

    >>> method({"optimizer": "NFTRL(alpha=2.0)", "conversion": "AverageSL(alpha=0.5)", "metric": "newton",
    ...         "penalty": "ElasticNet(lam=0.0123456, rho=0.0)"})
    'method: NFTRL, AverageSL (newton), ElasticNet(lam=0.01235, rho=0)'
    """
    names = [chosen[name].partition("(")[0] for name in ("optimizer", "conversion") if name in chosen]
    if "metric" in chosen:
        names[-1] += f" ({chosen['metric']})"
    numbers = re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", chosen.get("penalty", ""))
    fades = [f"half_life={chosen['half_life']}"] if "half_life" in chosen else []
    return "method: " + ", ".join([*names, numbers, *fades])


def figures(found: Mapping[str, float]) -> str:
    """Return figures in one line, with shares as per cent.

    >>> figures({"rows": 300, "error": 0.071, "loss": 0.2}), figures({"rows": 300, "rmse": 1.69})
    ('300 rows, error 7.10%, loss 0.2', '300 rows, root mean squared error 1.69')
    """
    parts = []
    for name, value in found.items():
        text = f"{value:,} rows" if name == "rows" else f"{name} {100 * value:.2f}%" if name == "error" else None
        parts.append(text or f"{_SPELLED.get(name, name)} {value:.4g}")
    return ", ".join(parts)


def features(content: Mapping[str, Any], top: int | None = None) -> list[dict[str, Any]]:
    """Return the features of a model file, those of largest |weight| times spread first.

    Each is a dict of its column, its name and a weight for each output or class that has one.  Where the file has
    them, there are also the standard deviation of the column and the share of the rows in which it occurs.
    """
    coef, known = content["coef"], content.get("columns")
    output = np.repeat(np.arange(len(coef["ends"]) - 1), np.diff(coef["ends"]))
    called, signs = _outputs(content), signs_by_column(content)
    by_column: dict[int, dict[str, Any]] = {}
    for column, k, weight in zip(coef["columns"].tolist(), output.tolist(), coef["data"].tolist(), strict=True):
        name = str(content["names"].get(column, column))
        entry = by_column.setdefault(column, {"column": column, "name": name, "weights": {}})
        entry["weights"][called[k]] = signs.get(column, 1.0) * weight

    if known is not None:
        for column, spread, share in zip(used_columns(content).tolist(), known["spread"], known["share"], strict=True):
            if column in by_column:  # others have a weight in a smaller model only
                by_column[column] |= {"spread": float(spread), "occurs": float(share)}

    paths = stability_of(content)
    if paths is not None:
        figures = zip(used_columns(content).tolist(), paths.q_values(), paths.probabilities(), strict=True)
        for column, q_value, probability in figures:
            by_column[column] |= {"q_value": float(q_value), "probability": float(probability)}

    def rank(entry: dict[str, Any]) -> Any:  # effects that print alike are in the order of their names
        largest = max(abs(weight) for weight in entry["weights"].values()) * entry.get("spread", 1.0)
        return -float(f"{largest:.5g}"), entry["name"]

    return sorted(by_column.values(), key=rank)[:top]


def signs_by_column(content: Mapping[str, Any]) -> dict[int, float]:
    """Return the sign that hashing gave to the named feature of each column; none without hashing.

    A weight times this sign is that of the name.
    """
    seed = hash_seed_of(content)
    if seed is None:
        return {}
    return dict(zip(content["names"], signs_of(content["names"].values(), seed).tolist(), strict=True))


def intervals(content: Mapping[str, Any], top: int | None = None) -> dict[str, Any] | None:
    """Return the intervals of a model file, those of the largest |estimate| over its error first; None without any.

    A weight that the rows do not decide has None in place of numbers, and comes last.
    """
    stored = intervals_in(content)
    if stored is None:
        return None
    called, signs, low_and_high = _outputs(content), signs_by_column(content), stored.bounds(stored.level)
    entries = []
    columns = stored.features, stored.outputs, stored.weights, stored.errors, *low_and_high
    for column, output, *numbers in zip(*(each.tolist() for each in columns), strict=True):
        entry = {"column": column, "name": str(content["names"].get(column, column)), "for": called[output]}
        found = [None if np.isnan(number) else number for number in turned(numbers, signs.get(column, 1.0))]
        entries.append(entry | dict(zip(("estimate", "error", "low", "high"), found, strict=True)))

    def rank(entry: dict[str, Any]) -> Any:
        ratio = -1.0 if entry["error"] is None else abs(entry["estimate"]) / max(entry["error"], 1e-300)
        return -ratio, entry["name"]

    entries = sorted(entries, key=rank)
    return {"level": stored.level, "split": stored.is_split, "rows": stored.rows, "from": stored.source} | {
        "of": len(entries),
        "weights": entries[:top],
    }


def _outputs(content: Mapping[str, Any]) -> list[str]:
    """Return the name of the class or output of each row of weights."""
    n, classes = len(content["intercept"]), content["classes"]
    if classes is not None:
        return [printable(str(label)) for label in (classes.tolist()[-1:] if n == 1 else classes.tolist())]
    return ["prediction"] if n == 1 else [f"output {k}" for k in range(n)]


def description(content: Mapping[str, Any], top: int | None = None) -> dict[str, Any]:
    """Return a model file as a dict of numbers and words that JSON can hold."""
    trimmed = content["summary"]["report"].get("trimmed")
    count = len(used_columns(content)) if content["features"] == "crossed" else content["n_features"]
    if content["features"] in ("columns", "seen"):  # an index 0 that no row has is no feature
        count = content["extra"].get("training", {}).get("features", count)
    described = {
        "task": content["task"],
        "features": count if trimmed is None else trimmed["in_use"],
        "selected": len(np.unique(content["coef"]["columns"])),
        "nonzeros": content["summary"]["nonzeros"],
        "loss": str(content["loss"]),
        "intercept": dict(zip(_outputs(content), content["intercept"].tolist(), strict=True)),
        "examples": content["summary"]["examples"],
        "sparsco": content["summary"]["sparsco"],
        "has_training_state": "training" in content,
        "top": features(content, top),
        "sizes": [each._asdict() for each in trade_off(restored(content))],
        "intervals": intervals(content, top),
    }
    table = description_of(content)
    described |= {} if table is None else {"columns": table.lines()}
    return described | {name: value for name, value in content["extra"].items() if name in ("training", "reader")}


def described(content: Mapping[str, Any], top: int) -> str:
    """Return a description of a model file in words, with its ``top`` largest features."""
    found = description(content, top)
    outcome = found.get("training", {})
    lines = [
        f"{found['task']} with {found['loss']}: {found['selected']:,} features selected, {found['nonzeros']:,} "
        f"weights, learned from {found['examples']:,} examples by sparsco {found['sparsco']}",
    ]
    lines += _judged_in_words(outcome)
    lines += [_groups_in_words(outcome["groups"])] if "groups" in outcome else []
    lines += _promise_lines(outcome["promise"]) if "promise" in outcome else []
    lines += [f"chosen: {choice_in_words(outcome['choice'])}"] if "choice" in outcome else []
    lines += [method(outcome["chosen"])] if "chosen" in outcome else []
    lines += [f"column {printable(line)}" for line in found.get("columns", ())]
    lines += [f"warning: {in_shell(sentence)}" for sentence in outcome.get("warnings", ())]
    lines += ["intercept: " + ", ".join(f"{name} {value:.6g}" for name, value in found["intercept"].items()), ""]
    outputs = _outputs(content)
    width = max([len(shown(each["name"])) for each in found["top"]] + [7])
    has_spreads = all("spread" in each for each in found["top"])
    more = ["weight x spread", "occurs in"] if has_spreads else []
    has_promise = all("q_value" in each for each in found["top"]) and bool(found["top"])
    more += ["q-value", "in halves"] if has_promise else []
    lines.append(f"{'feature':{width}} " + " ".join(f"{name:>12}" for name in [*outputs, *more]))
    for each in found["top"]:
        cells = [each["weights"].get(name) for name in outputs]
        texts = ["" if cell is None else f"{cell:.6g}" for cell in cells]
        if has_spreads:
            largest = max((cell for cell in cells if cell is not None), key=abs)
            texts += [f"{largest * each['spread']:.4g}".rjust(len(more[0])), percent(each["occurs"], 3)]
        if has_promise:
            texts += [f"{each['q_value']:.2g}", percent(each["probability"], 3)]
        lines.append(f"{shown(each['name']):{width}} " + " ".join(f"{text:>12}" for text in texts))
    if found["selected"] > len(found["top"]):
        lines.append(f"... and {found['selected'] - len(found['top']):,} more: --top N shows them")
    return "\n".join([*lines, *_intervals_in_words(found["intervals"]), *_sizes_in_words(found["sizes"])])


_HEADS = ("feature", "for", "estimate", "std error", "low", "high")


def _interval_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return the cells of the table of intervals."""
    rows = []
    for each in found["weights"]:
        numbers = ["" if each[name] is None else f"{each[name]:.4g}" for name in ("estimate", "error", "low", "high")]
        rows.append([shown(each["name"]), each["for"], *numbers])
    return rows


def _intervals_in_words(found: Mapping[str, Any] | None) -> list[str]:
    """Return the table of intervals as lines of text; none if there are no intervals."""
    if found is None:
        return []
    rows = [list(_HEADS), *_interval_rows(found)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADS))]
    lines = ["", f"{100.0 * found['level']:g}% intervals of the weights without a penalty, {in_shell(found['from'])}"]
    for name, *cells in rows:
        texts = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *texts]).rstrip())
    left = found["of"] - len(found["weights"])
    return [*lines, *([f"... and {left:,} more: --top N shows them"] if left else [])]


def _sizes_in_words(sizes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the trade-off between size and loss as lines of text; none if nothing was chosen."""
    if not sizes:
        return []
    lines = ["", "features  loss on held-out rows"]
    for each in sizes:
        line = f"{each['size']:>8,}  {each['loss']:<8.4g} +- {each['error']:<8.2g}"
        lines.append(line + ("chosen" if each["chosen"] else "").rstrip())
    return [*(line.rstrip() for line in lines), "--size K shows a smaller model, -o FILE writes it"]


def shown(name: str) -> str:
    """Return the name of a feature for a terminal: printable, and not too long."""
    text = printable(name)
    return text if len(text) <= 60 else text[:57] + "..."


def headline(found: Mapping[str, Any]) -> str:
    """Return a model in one sentence: how many features predict what, with which error.

    >>> found = {"task": "classification", "selected": 37, "features": 18204, "intercept": {"spam": 0.1},
    ...          "training": {"test": {"rows": 1000, "error": 0.019}}}
    >>> headline(found)
    '37 of 18,204 features predict spam with 1.9% error on 1,000 test rows'
    """
    outcome, outputs = found.get("training", {}), list(found["intercept"])
    what = f"{len(outputs)} {'classes' if _classifies(found) else 'outputs'}"
    if len(outputs) == 1:
        what = outputs[0] if _classifies(found) else "the target"
    of = outcome.get("features", found["features"])  # a file of names holds those that have a weight
    sentence = f"{found['selected']:,} of {of:,} features predict {what}"
    for name in reversed(judged(outcome)):
        own = outcome[name]
        rows = f"{own['rows']:,} {_JUDGED[name]}" if "rows" in own else _JUDGED[name]
        if "error" in own:
            return f"{sentence} with {percent(own['error'])} error on {rows}"
        if "rmse" in own:
            return f"{sentence} with a root mean squared error of {own['rmse']:.3g} on {rows}"
    return sentence


def _classifies(found: Mapping[str, Any]) -> bool:
    return bool(found["task"] == "classification")


def write_page(path: str | Path, content: Mapping[str, Any], top: int) -> Path:
    """Write the model as one HTML file, its headline and its plots first, and return its path."""
    found, outputs = description(content, top), _outputs(content)
    outcome = found.get("training", {})
    blocks = [html.text(f"Learned from {found['examples']:,} examples.")]
    blocks += [html.text(f"Warning: {sentence}") for sentence in outcome.get("warnings", ())]
    blocks += [html.text(f"Promised: {promise_in_words(outcome['promise'])}")] if "promise" in outcome else []
    blocks += _plots(found, outcome, outputs)
    more = [name for name in ("q_value", "probability") if all(name in each for each in found["top"])]
    rows = [
        [each["name"], *(each["weights"].get(name) for name in outputs), *(each[name] for name in more)]
        for each in found["top"]
    ]
    heads = ["feature", *outputs, *(_PROMISE_HEADS[name] for name in more)]
    blocks += [html.heading("Features, the strongest first"), html.table(heads, rows)]
    if found["intervals"]:
        about = f"{100.0 * found['intervals']['level']:g}% intervals of the weights without a penalty"
        blocks += [html.heading(about), html.text(found["intervals"]["from"])]
        blocks.append(html.table(_HEADS, _interval_rows(found["intervals"])))
    if found["sizes"]:
        rows = [[each["size"], each["loss"], each["error"], "chosen" * each["chosen"]] for each in found["sizes"]]
        heads = ["features", "loss on held-out rows", "standard error", ""]
        blocks += [html.heading("Models by their number of features"), html.table(heads, rows)]
    blocks.append(html.details("How it was learned", html.table(["", ""], _facts(found, outcome))))
    return html.write(path, headline(found), blocks)


def _facts(found: Mapping[str, Any], outcome: Mapping[str, Any]) -> list[list[Any]]:
    """Return the settings and figures of a training, as lines of a table."""
    facts = [[name, found[name]] for name in ("task", "loss", "selected", "features", "nonzeros", "examples")]
    facts += [[name.replace("_", " "), value] for name, value in outcome.get("chosen", {}).items()]
    facts += [[_JUDGED[name], figures(outcome[name])] for name in judged(outcome)]
    return [*facts, *(["intercept: " + name, value] for name, value in found["intercept"].items())]


@html.with_plots
def _plots(found: Mapping[str, Any], outcome: Mapping[str, Any], outputs: list[str]) -> list[str]:
    from ..plots.sizes import draw_sizes

    blocks, table = [], outcome.get("table", [])
    largest = found["top"][:20]
    if largest and len(outputs) == 1:
        figure, axes = page_axes(0.18 * len(largest) + 0.7)
        weights = [next(iter(each["weights"].values())) * each.get("spread", 1.0) for each in largest]
        draw_weights([each["name"] for each in largest], weights, axes, outputs[0])
        blocks.append(html.figure(figure, "The strongest features, by weight times spread."))
    if found["sizes"]:
        figure, axes = page_axes()
        draw_sizes([Size(**each) for each in found["sizes"]], axes)
        blocks.append(html.figure(figure, "Fewer features and their price: --size K -o FILE writes a smaller model."))
    if len(table) > 1:
        (of_error, left), (of_features, right) = page_axes(2.2), page_axes(2.2)
        rows = [line["rows"] for line in table]
        left.plot(rows, [line["mistake"] for line in table], "o-", label="since the last line")
        left.plot(rows, [line["mean_mistake"] for line in table], label="all so far")
        left.set(xlabel="rows", ylabel="error" if _classifies(found) else "root mean squared error")
        left.legend()
        scale_of_counts(left.xaxis)
        right.plot(rows, [line["nonzeros"] for line in table], "o-")
        right.set(xlabel="rows", ylabel="features with a weight")
        scale_of_counts(right.xaxis)
        blocks.append(
            html.figures([of_error, of_features], "While it was learned: rows are judged before they are learned.")
        )
    return blocks
