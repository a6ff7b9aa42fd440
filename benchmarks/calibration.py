"""Expected calibration errors on imbalanced sets, before and after.  ``make bench-calibration``

For five splits of each set, models learn three quarters of the rows.  On the rest the probabilities of the rarer class
are compared with its frequencies, in 15 bins of equal width.  The error is the mean distance over all rows.  Losses
without probabilities, and balanced classes before their correction, are read as logistic margins.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import expit

from sparsco import SparseClassifier, datasets

SPLITS, HELD_OUT, BINS = 5, 0.25, 15
SETS = ("w8a", "sms-spam", "a9a", "cod-rna 5%", "spambase 10%", "covtype20k 7")
PAIRS = {
    "logistic": ({}, ("uncalibrated", "calibrated")),
    "hinge": ({"loss": "hinge"}, ("uncalibrated", "calibrated")),
    "squared hinge": ({"loss": "squared-hinge"}, ("uncalibrated", "calibrated")),
    "balanced": ({"class_weight": "balanced"}, ("uncalibrated", "corrected", "calibrated")),
    "balanced stream": ({"class_weight": "balanced"}, ("uncalibrated", "corrected", "calibrated")),
    "logistic, alpha given": ({"alpha": 1e-3}, ("uncalibrated", "calibrated")),
}


def rows_of(name: str) -> tuple[csr_matrix, np.ndarray]:
    """Return rows, and whether each is of the rarer class; a share after the name thins that class out."""
    base, _, rest = name.partition(" ")
    X, y = datasets.load(base)
    if rest.isdigit():
        is_rare = y == int(rest)
    else:
        labels, counts = np.unique(y, return_counts=True)
        is_rare = y == labels[counts.argmin()]
    if rest.endswith("%"):
        share, rng = float(rest[:-1]) / 100.0, np.random.default_rng(3)
        rare, common = np.flatnonzero(is_rare), np.flatnonzero(~is_rare)
        kept = rng.permutation(rare)[: int(share / (1.0 - share) * len(common))]
        rows = np.sort(np.concatenate([kept, common]))
        X, is_rare = X[rows], is_rare[rows]
    return csr_matrix(X), is_rare


def calibration_error(p: np.ndarray, is_one: np.ndarray) -> float:
    """Return the expected calibration error of probabilities, in bins of equal width."""
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, p - is_one, BINS)
    return float(np.abs(gaps).sum() / len(p))


def learned(settings: dict, X: csr_matrix, y: np.ndarray, is_stream: bool) -> SparseClassifier:
    """Return a fitted model, or one that has learned the rows in pieces."""
    model = SparseClassifier(random_state=0, **settings)
    if not is_stream:
        return model.fit(X, y)
    for first in range(0, len(y), 1000):
        model.partial_fit(X[first : first + 1000], y[first : first + 1000], classes=[False, True])
    model.convert()
    return model


def figures(name: str, number: int) -> dict[str, dict[str, float]]:
    """Return the calibration errors and the times of a split."""
    X, y = rows_of(name)
    order = np.random.default_rng([number, 7]).permutation(len(y))
    test, train = np.split(order, [int(HELD_OUT * len(y))])
    found: dict[str, dict[str, float]] = {}
    for method, (settings, kinds) in PAIRS.items():
        is_stream = "stream" in method
        start = time.process_time()
        plain = learned(settings, X[train], y[train], is_stream)
        between = time.process_time()
        scaled = learned(settings | {"calibrate": True}, X[train], y[train], is_stream)
        seconds = between - start, time.process_time() - between
        margins = plain.decision_function(X[test])
        errors = {"uncalibrated": calibration_error(expit(margins), y[test])}
        if "corrected" in kinds:
            errors["corrected"] = calibration_error(plain.predict_proba(X[test])[:, 1], y[test])
        errors["calibrated"] = calibration_error(scaled.predict_proba(X[test])[:, 1], y[test])
        # what the best probabilities would still show: the noise of so many rows in so many bins
        p = scaled.predict_proba(X[test])[:, 1]
        draws = np.random.default_rng(0).random((20, len(p))) < p
        errors["noise"] = float(np.mean([calibration_error(p, draw) for draw in draws]))
        found[method] = errors | {"seconds": seconds[0], "seconds calibrated": seconds[1]}
    return found


def table(results: dict[str, list[dict[str, dict[str, float]]]]) -> str:
    """Return the means over splits as a table in Markdown; errors are in percent."""
    lines = ["| set | method | uncalibrated | corrected | calibrated | ratio | noise | seconds |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for name, splits in results.items():
        for method in PAIRS:
            mean = {key: float(np.mean([each[method][key] for each in splits])) for key in splits[0][method]}
            before, after = mean["uncalibrated"], mean["calibrated"]
            corrected = f"{100 * mean['corrected']:.2f}" if "corrected" in mean else ""
            times = f"{mean['seconds']:.1f} → {mean['seconds calibrated']:.1f}"
            lines.append(
                f"| {name} | {method} | {100 * before:.2f} | {corrected} | {100 * after:.2f} | {after / before:.2f} | "
                f"{100 * mean['noise']:.2f} | {times} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, list[dict[str, dict[str, float]]]] = {}
    for name in given.sets:
        results[name] = [figures(name, number) for number in range(given.splits)]
        print(table({name: results[name]}), flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    with datasets.ends_if_missing():
        main()
