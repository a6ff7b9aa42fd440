"""The options of the estimators on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from .options import part, positive


def add_learning(to: argparse.ArgumentParser, is_path: bool = False) -> None:
    """Add the options of the estimators; a path has none for one strength or for the number of features."""
    about = "Write a part with settings as in Python: --loss 'Huber(0.5)', --penalty 'L1Ball(30)'."
    group = to.add_argument_group("model and training", about)
    group.add_argument(
        "--task", choices=("classification", "regression"), help="the task (default: inferred from the labels)"
    )
    group.add_argument("--loss", help="logistic, hinge, squared-hinge, multinomial; squared, huber, quantile, ...")
    group.add_argument(
        "--penalty",
        help="elasticnet (default), mcp, adaptive, group, sparse-group, row-group, trace, nonnegative, "
        "L1Ball(RADIUS), ...",
    )
    group.add_argument(
        "--groups",
        metavar="columns|FILE",
        help="select groups of features: the columns of a table with all their categories, or those of FILE, with "
        "lines FEATURE GROUP (--penalty group is the default then; the data is read once more)",
    )
    (_add_shared_l2 if is_path else _add_strength)(group)
    _add_method(group)
    if is_path:
        to.set_defaults(calibrate=False, max_features=None, trim=None)
        to.set_defaults(budget=None, target_excess_risk=None, rule=None, cv=None, fdr=None, efp=None, probes=False)
        to.set_defaults(relaxed=None)
    else:
        _add_choice(group)
    group.add_argument(
        "--polish",
        type=float,
        nargs="?",
        const=True,
        default=False,
        metavar="TOL",
        help="continue to the exact optimum, up to violations of TOL times the L1 weight, and a duality gap of TOL "
        "times the objective (default: 1e-4)",
    )
    _add_rest(group)


def _add_strength(group: Any) -> None:
    """Add the options of one strength of the penalty."""
    group.add_argument(
        "--alpha",
        type=float,
        help="strength of the penalty (default: chosen on held-out rows; with --groups and other penalties than an "
        "elastic net 5%% of the least strength that selects nothing)",
    )
    group.add_argument(
        "--l1-ratio",
        type=float,
        metavar="R",
        help="share of the L1 term, from 0 to 1 (default: chosen on held-out rows; 1 if --alpha is given)",
    )
    yes_or_no = argparse.BooleanOptionalAction
    group.add_argument(
        "--standardize",
        action=yes_or_no,
        help="penalise each column in units of its spread (default: yes, for an elastic net whose strength is chosen "
        "on held-out rows; with --groups and in compare, without --alpha)",
    )
    group.add_argument(
        "--relaxed",
        action=yes_or_no,
        help="fit the selected features again without the L1 term (default: chosen on held-out rows)",
    )
    group.add_argument("--l1", type=float, metavar="LAM", help="strength of the L1 term, instead of --alpha")
    group.add_argument("--l2", type=float, metavar="RHO", help="strength of the L2 term, instead of --alpha")


def _add_shared_l2(group: Any) -> None:
    """Add the options of the L2 term that all strengths of a path share, and of the units of the penalty."""
    group.add_argument("--l2", type=float, metavar="RHO", help="L2 weight of all strengths (default: 0)")
    group.add_argument(
        "--alpha",
        type=float,
        help="with --l1-ratio R: an L2 weight of ALPHA * (1 - R), instead of --l2 (default: 5%% of the least strength "
        "that selects nothing)",
    )
    group.add_argument("--l1-ratio", type=float, metavar="R", help="see --alpha; from 0 to 1 (default: 1, no L2 term)")
    group.add_argument("--l1", type=float, help=argparse.SUPPRESS)  # otherwise it would be short for --l1-ratio
    group.add_argument(
        "--standardize",
        action=argparse.BooleanOptionalAction,
        help="penalise each column in units of its spread (default: yes, for an elastic net or groups without "
        "--alphas, --alpha, --l2 and --preset)",
    )


def _add_choice(group: Any) -> None:
    """Add the options of the automatic choice and of the number of features."""
    group.add_argument(
        "--choose",
        dest="rule",
        choices=("balanced", "min", "1-se"),
        help="the rule that chooses the strength: balanced (default), min (least loss) or 1-se (fewest features "
        "within a standard error; often the same model)",
    )
    group.add_argument(
        "--cv",
        type=int,
        metavar="N",
        help="choose the strength on N folds (default: a held-out sample or up to five folds)",
    )
    group.add_argument(
        "--fdr",
        type=float,
        metavar="SHARE",
        help="select features of which at most this share is expected to be false, such as 0.1 (docs/promise.md)",
    )
    group.add_argument(
        "--efp", type=float, metavar="N", help="select features of which at most N are expected to be false"
    )
    group.add_argument(
        "--probes",
        action="store_true",
        help="with --fdr or --efp: judge as many columns that cannot matter, and report how many are selected",
    )
    group.add_argument(
        "--calibrate",
        action="store_true",
        help="calibrate the probabilities of a classification on rows that are not learned (docs/calibration.md)",
    )
    group.add_argument("--budget", type=positive, metavar="K", help="the best model with at most K features")
    group.add_argument(
        "--target-excess-risk",
        type=float,
        nargs=2,
        metavar=("EPS", "DELTA"),
        help="keep the features of so many random draws that these add at most EPS * DELTA to the loss on average",
    )
    _add_bounds(group)


def _add_bounds(group: Any) -> None:
    """Add the options that bound the memory of a stream."""
    group.add_argument(
        "--max-features",
        type=positive,
        metavar="N",
        help="keep at most N features in memory: those without a weight, and those unseen for long, leave first",
    )
    group.add_argument(
        "--trim", type=positive, metavar="N", help="let features without a weight leave that N examples did not have"
    )


def _add_method(group: Any) -> None:
    """Add the options of the method: optimizer, conversion, steps."""
    group.add_argument("--optimizer", help="auto, nftrl, ftrl, fobos, rda, sgd, orda, truncated-gradient, ...")
    group.add_argument("--conversion", help="auto, last, average, suffix, average-sl, optimal-sl, last-sl, ocmdi, ...")
    group.add_argument(
        "--step-size", type=_number_or_name, metavar="ETA", help="a constant step size, or the name of a rule"
    )
    group.add_argument(
        "--preset", metavar="NAME", help="a published method by name, such as two-stage (docs/two-stage.md)"
    )


def _add_rest(group: Any) -> None:
    """Add the options of old rows, memory, labels and random choices."""
    group.add_argument(
        "--half-life",
        type=float,
        metavar="N",
        help="let old rows fade: a row counts half after N further rows, or after a time of N with --time; rows keep "
        "their order (docs/streams.md)",
    )
    group.add_argument(
        "--storage",
        choices=("all", "seen"),
        help="allocate memory for all columns, or for those that occur (default: all; seen with --hash-bits 20 "
        "or more)",
    )
    group.add_argument(
        "--classes", type=_labels, metavar="A,B,...", help="all labels that can occur, or any to accept new ones"
    )
    group.add_argument(
        "--class-weight",
        type=_class_weight,
        metavar="balanced|LABEL=W,...",
        help="weights of the rows of each label; balanced: inverse to their frequencies so far",
    )
    group.add_argument("--no-intercept", action="store_true", help="fit no intercept")
    group.add_argument("--seed", type=int, metavar="N", help="seed of all random choices (default: 0)")


def learning(given: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of an estimator that were given."""
    names = ["loss", "penalty", "alpha", "l1_ratio", "optimizer", "conversion", "step_size", "preset", "budget"]
    names += ["standardize", "relaxed", "rule", "cv", "half_life", "max_features", "trim"]
    settings = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if given.groups is not None:
        settings = {"penalty": "group"} | settings
    rule = settings.pop("rule", None)
    settings |= {name: part(name, value) for name, value in settings.items() if isinstance(value, str)}
    settings |= {} if rule is None else {"choose": rule}
    if given.l1 is not None or given.l2 is not None:
        if given.alpha is not None or given.l1_ratio is not None:
            raise ValueError("--l1 and --l2 take the place of --alpha and --l1-ratio: give one or the other.")
        l1, l2 = given.l1 or 0.0, given.l2 or 0.0
        if not (l1 >= 0.0 and l2 >= 0.0):
            raise ValueError("--l1 and --l2 must be at least 0.")
        settings |= {"alpha": l1 + l2, "l1_ratio": l1 / (l1 + l2) if l1 + l2 else 1.0}
    settings |= _promise(given)
    settings |= {} if given.groups is None else {"feature_groups": _groups(given.groups)}
    settings |= {} if given.polish is False else {"polish": given.polish}
    settings |= {} if given.target_excess_risk is None else {"target_excess_risk": tuple(given.target_excess_risk)}
    settings |= {} if given.storage is None else {"storage": given.storage}
    return settings | {"fit_intercept": not given.no_intercept, "random_state": given.seed or 0}


def _promise(given: argparse.Namespace) -> dict[str, Any]:
    """Return the conversion of a selection with a promise, if one was given."""
    if given.fdr is None and given.efp is None:
        if given.probes:
            raise ValueError("--probes checks the promise of --fdr or --efp: give one of them.")
        return {}
    from ..conversions import PathStability

    if given.conversion is not None:
        raise ValueError("--fdr and --efp take the place of --conversion: give one or the other.")
    if given.fdr is not None and given.efp is not None:
        raise ValueError("--fdr and --efp are two kinds of promise: give one or the other.")
    return {"conversion": PathStability(given.fdr, given.efp, probes=given.probes)}


def estimator(given: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the estimator that was requested, or None if the labels decide, and its parameters."""
    from ..estimators.tasks import LinearClassifier, LinearRegressor
    from ..losses import CLASSIFIER_LOSSES, REGRESSOR_LOSSES

    settings, task = learning(given), given.task
    loss = settings.get("loss")
    if task is None and loss is not None:
        is_name = isinstance(loss, str)
        labels = loss in CLASSIFIER_LOSSES if is_name else loss.classifies
        numbers = loss in REGRESSOR_LOSSES if is_name else not loss.classifies
        if not (labels or numbers):
            known = ", ".join(dict.fromkeys([*CLASSIFIER_LOSSES, *REGRESSOR_LOSSES]))
            raise ValueError(f"--loss {loss} is not known: choose from {known}.")
        task = {(True, False): "classification", (False, True): "regression"}.get((labels, numbers))
    is_about_classes = given.classes is not None or given.class_weight is not None or given.calibrate
    if task is None and is_about_classes:
        task = "classification"
    if task == "regression" and is_about_classes:
        raise ValueError("--classes, --class-weight and --calibrate are for a classification.")
    if task == "classification":
        settings |= {} if given.class_weight is None else {"class_weight": given.class_weight}
        settings |= {"calibrate": True} if given.calibrate else {}
    kind = {"classification": LinearClassifier, "regression": LinearRegressor, None: None}[task]
    return (None if kind is None else kind(**settings)), settings


def _groups(given: str) -> Any:
    """Return the groups of features: "columns", or the names and groups of a file's lines."""
    if given == "columns":
        return given
    with open(given, encoding="utf-8", errors="surrogateescape") as file:
        lines = [(number, line.rstrip("\r\n")) for number, line in enumerate(file, 1) if line.strip()]
    found: dict[str, str] = {}
    for number, line in lines:
        name, _, group = line.rpartition("\t" if "\t" in line else " ")
        if not name.strip() or not group.strip():
            raise ValueError(f"{given}, line {number}: it must have a feature, a tab or a space, and its group.")
        if name.strip() in found:
            raise ValueError(f"{given}, line {number}: {name.strip()!r} has a group already: give it one line.")
        found[name.strip()] = group.strip()
    if not found:
        raise ValueError(f"{given} has no lines: write one for each feature, with its name and its group.")
    return found


def _number_or_name(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _labels(text: str) -> Any:
    if text == "any":
        return text
    found = [_label(part) for part in text.split(",")]
    if len(set(found)) < 2 or "" in found or len({type(label) for label in found}) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither any nor a list of at least two labels such as 0,1")
    return found


def _class_weight(text: str) -> Any:
    if text == "balanced":
        return text
    try:
        pairs = [part.rsplit("=", 1) for part in text.split(",")]
        return {_label(label): float(weight) for label, weight in pairs}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither balanced nor a list such as 1=10,-1=1") from None


def _label(text: str) -> Any:
    """Return a label in the form that readers give it: a whole number, or a word."""
    try:
        return int(float(text)) if float(text).is_integer() else text
    except ValueError:
        return text
