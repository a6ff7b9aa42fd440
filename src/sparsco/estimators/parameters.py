"""From the parameters of an estimator to runs: names are looked up, every "auto" is decided, bad values are refused."""

from __future__ import annotations

import numbers
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import conversions, steps
from ..choice.fitting import Strength
from ..choice.rule import RULES
from ..choice.splits import ByRow
from ..conversions import CONVERSIONS
from ..conversions.choose import MIXTURES, Choose
from ..conversions.rounding import with_weights
from ..conversions.thinning import check_target
from ..data.randomness import seed_of
from ..engine.grid import MAX_LANES
from ..engine.part_checks import check_polishable
from ..engine.polish import TOLERANCE
from ..engine.run import Run
from ..jit.lanes import WIDTHS
from ..optimizers import OPTIMIZERS
from ..parts.compatibility import refuse, trimming_reason
from ..parts.part import kind_of
from ..penalties import (
    PENALTIES,
    RATIOS,
    Auto,
    AutoElasticNet,
    AutoGroups,
    ElasticNet,
    elastic_net,
    is_of_fixed_width,
    phase_one,
    rescaled,
    scaled,
)
from ..presets import PRESETS, Preset
from ..solver.smoothing import smooth
from ..solver.units import Units
from ..util.validation import is_auto, is_count, is_number, is_true
from .grouping import BY_GROUP, check_feature_groups, grouped
from .held_out import check_rows_held_out, folds_of, is_by_row
from .part_names import named
from .promise_checks import check_promise, promises
from .row_offsets import loss_at
from .trimming_checks import check_trimming, trims

LEAST_RATIO = 1e-3
"""The share of the L1 term that stands for none where a strength is chosen."""
AUTO_FRACTION = 0.05
"""The share that alpha="auto" takes of the smallest L1 weight that selects nothing on the first 1000 rows."""
_WITH_UNITS = ("elasticnet", *RATIOS, *BY_GROUP, "row-group")
"""The penalties that can be in units of the columns' spread."""
_OPTIMIZERS = {name: kind() for name, kind in OPTIMIZERS.items()}
"""The optimizers by name, each with its default constants."""


def ratio_of(model: Any) -> float:
    """Return the share of the L1 term: ``l1_ratio``, or the one that ``penalty="l1"`` or ``"l2"`` means.

    Where it is neither given nor chosen from the data, it is 1.
    """
    end = _ratio_by_name(model)
    if end is None:
        end = 1.0 if is_auto(model.l1_ratio) else model.l1_ratio
    return float(end)


def is_automatic(model: Any, starts_elsewhere: bool = False) -> bool:
    """Return whether phase two chooses the strength, or penalises columns in units of their spread.

    If an optimizer, a conversion, a step size or a preset is named, that method is used, with a strength that the first
    rows suggest.
    """
    is_open = all(is_auto(getattr(model, name)) for name in ("optimizer", "step_size"))
    is_open = is_open and (is_auto(model.conversion) or promises(model))
    is_open = is_open and model.preset is None and model.strengths is None and not starts_elsewhere
    if not is_open or not suits_units(model) or model.target_excess_risk is not None:
        return False
    return is_auto(model.alpha) or is_true(model.standardize)


def suits_units(model: Any) -> bool:
    """Return whether a choice can penalise columns in units of their spread: an elastic net, a loss with a solver."""
    is_net = asked(model, "penalty") in ("elasticnet", *RATIOS)
    return is_net and smooth(named("loss", model.loss, model.known_losses)) is not None


def in_units(model: Any, starts_elsewhere: bool = False) -> bool:
    """Return whether rows are learned in units of the columns' spread; an automatic choice does that in phase two.

    Groups are, unless their strength is given: the first rows' strength would follow the columns of the largest spread.
    """
    if is_auto(model.standardize):
        is_open = is_auto(model.alpha) and not isinstance(model.strengths, np.ndarray) and model.preset is None
        return is_open and isinstance(model.penalty, str) and model.penalty in BY_GROUP
    return is_true(model.standardize) and not is_automatic(model, starts_elsewhere)


def _choice(model: Any, by_row: ByRow | None) -> Choose:
    """Return the conversion that chooses, or that solves for a given strength."""
    standardize = True if is_auto(model.standardize) else bool(model.standardize)
    relaxes = not tolerance(model) and (is_auto(model.relaxed) or bool(model.relaxed))
    rule = model.choose if model.budget is None else int(model.budget)
    if not is_auto(model.alpha):
        relaxed = relaxes and not is_auto(model.relaxed)
        given = Strength(float(model.alpha), ratio_of(model), relaxed)
        return Choose(rule, standardize=standardize, given=given, calibrates=bool(model.calibrate))
    is_given = _ratio_by_name(model) is not None or not is_auto(model.l1_ratio)
    mixtures = (max(ratio_of(model), LEAST_RATIO),) if is_given else MIXTURES
    return Choose(rule, mixtures, standardize, None, relaxes, folds_of(model.cv), by_row, bool(model.calibrate))


def _check_held_out(model: Any, starts_elsewhere: bool, by_row: ByRow | None) -> None:
    """Raise a ValueError if ``cv`` or groups are given that no choice can honour."""
    cv = model.cv
    if is_by_row(cv) and by_row is None:
        raise ValueError(
            f"cv is a {type(cv).__name__}, whose splits need all rows at once, as fit gets them: give a number of "
            "folds, or use fit."
        )
    chooses = is_automatic(model, starts_elsewhere) and is_auto(model.alpha) and not promises(model)
    if not chooses and (by_row is not None or folds_of(cv) is not None):
        what = "groups" if folds_of(cv) is None and not is_by_row(cv) else "cv"
        raise ValueError(
            f"{what} has no effect, since alpha is not chosen on held-out rows: leave alpha, optimizer, conversion and "
            f"others at 'auto', or leave out {what}."
        )


def _ratio_by_name(model: Any) -> float | None:
    return RATIOS.get(model.penalty) if isinstance(model.penalty, str) else None


def asked(model: Any, name: str) -> Any:
    """Return the value of a parameter, or the value in the preset if the parameter is left open."""
    own = getattr(model, name)
    is_open = isinstance(own, str) and own == ("elasticnet" if name == "penalty" else "auto")
    return _preset(model).get(name, own) if is_open and model.preset is not None else own


def _preset(model: Any) -> dict[str, Any]:
    """Return the parameters of the preset of an estimator: "two-stage" is ``presets.TwoStage()``."""
    if isinstance(model.preset, Preset):
        return model.preset.parameters()
    table = {_dashed(name): preset for name, preset in PRESETS.items()}
    if not isinstance(model.preset, str):
        raise ValueError(f"preset={model.preset!r}: it is a preset of sparsco.presets or one of {', '.join(table)}.")
    return named("preset", model.preset, table)().parameters()


def _dashed(name: str) -> str:
    """Return a class name with dashes: TwoStage becomes two-stage, AverageSL becomes average-sl."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _check_penalty(model: Any) -> None:
    """Raise a ValueError if parameters of the penalty contradict each other, or the method."""
    if promises(model):
        check_promise(model, is_automatic(model))
    if is_true(model.standardize) and asked(model, "penalty") not in _WITH_UNITS:
        raise ValueError(
            "standardize=True is for penalty='elasticnet', 'l1', 'l2' and groups of weights: leave it out, or scale X."
        )
    end = _ratio_by_name(model)
    if end is not None and not is_auto(model.l1_ratio) and model.l1_ratio not in (1.0, end):
        raise ValueError(
            f"penalty={model.penalty!r} with l1_ratio={model.l1_ratio!r}: for a mixture of both choose "
            "penalty='elasticnet'."
        )


def check_parameters(model: Any) -> None:
    """Raise a ValueError if a number is out of its range; ``new_runs`` looks up the names."""

    def must(name: str, holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(f"{name}={getattr(model, name)!r}: it must be {what}.")

    must("alpha", is_auto(model.alpha) or is_number(model.alpha, 0.0), "'auto' or a number of at least 0")
    is_ratio = is_auto(model.l1_ratio) or is_number(model.l1_ratio, 0.0, 1.0)
    must("l1_ratio", is_ratio, "'auto', or between 0 (only L2) and 1 (only L1)")
    for name in ("standardize", "relaxed"):
        given = getattr(model, name)
        must(name, is_auto(given) or isinstance(given, bool | np.bool_), "'auto', True or False")
    must("choose", model.choose in RULES, f"one of {', '.join(map(repr, RULES))}")
    check_rows_held_out(model)
    _check_penalty(model)
    check_feature_groups(asked(model, "penalty"), model.feature_groups)
    must("max_iter", is_count(model.max_iter), "a whole number of passes, at least 1")
    must("tol", model.tol is None or is_number(model.tol, 0.0), "None or a number of at least 0")
    must("n_iter_no_change", is_count(model.n_iter_no_change), "a whole number of passes, at least 1")
    fraction = model.validation_fraction
    for flag in ("fit_intercept", "shuffle", "early_stopping", "warm_start"):
        must(flag, isinstance(getattr(model, flag), bool | np.bool_), "True or False")
    must("storage", model.storage in ("auto", "all", "seen"), "'auto', 'all' (room for every column) or 'seen'")
    for name in ("max_features", "trim"):
        given = getattr(model, name)
        must(name, given is None or is_count(given), "None or a whole number of at least 1")
    if trims(model):
        check_trimming(model, by_column(model), bool(tolerance(model)))
    if model.storage == "seen" and by_column(model):
        raise ValueError(
            f"{by_column(model)} has one value per column, which storage='seen' does not list: leave storage at 'auto'."
        )
    must("budget", model.budget is None or is_count(model.budget), "None or a whole number of features, at least 1")
    if model.target_excess_risk is not None:
        if model.budget is not None:
            raise ValueError("budget and target_excess_risk both set the number of features: leave one at None.")
        check_target(model.target_excess_risk)
    polish = model.polish
    is_tolerance = is_number(polish) and not isinstance(polish, numbers.Integral) and polish > 0.0
    must("polish", isinstance(polish, bool | np.bool_) or is_tolerance, "True, False or a tolerance, a float above 0")
    must(
        "n_jobs",
        model.n_jobs is None or (isinstance(model.n_jobs, numbers.Integral) and model.n_jobs != 0),
        "None or a whole number of threads (-1: as many as there are cores)",
    )
    if model.early_stopping and is_automatic(model):
        raise ValueError(
            "early_stopping=True ends passes over the rows, and the automatic choice of alpha makes none: pass alpha=, "
            "or leave it False."
        )
    if tolerance(model) and model.early_stopping:
        raise ValueError("polish needs all rows, and early_stopping=True holds some out: choose one of the two.")
    _check_half_life(model)
    must("verbose", isinstance(model.verbose, numbers.Integral), "a whole number")
    must("validation_fraction", is_number(fraction) and 0.0 < fraction < 1.0, "between 0 and 1, both excluded")


def _check_half_life(model: Any) -> None:
    """Raise a ValueError for a half-life that is no number above 0, or that a parameter cannot honour."""
    half_life = model.half_life
    if half_life is None:
        return
    if not ((is_number(half_life) or half_life == np.inf) and half_life > 0.0):
        raise ValueError(f"half_life={half_life!r}: it must be None or a number above 0, of examples or of time.")
    if tolerance(model):
        raise ValueError("polish solves for all rows alike, and half_life lets old ones fade: choose one of the two.")
    if model.early_stopping:
        raise ValueError("early_stopping ends passes, and half_life reads the rows once: choose one of the two.")
    if promises(model):
        raise ValueError("a bound on false features has no form for half_life: leave half_life at None.")


def half_life_of(model: Any) -> float | None:
    """Return the half-life; None where examples never fade."""
    return None if model.half_life is None or model.half_life == np.inf else float(model.half_life)


def tolerance(model: Any) -> float:
    """Return the tolerance that ``polish`` sets; 0 if nothing is polished."""
    return TOLERANCE if is_true(model.polish) else float(model.polish)


def refuse_polish(model: Any, method: str) -> None:
    """Raise a ValueError if ``polish`` is set, for a method that reads the rows only once."""
    if tolerance(model):
        raise ValueError(f"polish={model.polish!r} needs all rows several times, which {method} does not get: use fit.")


def most_models(model: Any) -> int | None:
    """Return the largest number of models that a run may learn; None for all models, if something couples them."""
    loss = named("loss", model.loss, model.known_losses)
    penalty, optimizer = named("penalty", asked(model, "penalty"), PENALTIES), asked(model, "optimizer")
    optimizer = named("optimizer", "nftrl" if is_auto(optimizer) else optimizer, _OPTIMIZERS)
    if optimizer.penalises_each_model:
        return 1
    if penalty.kind != "separable" or loss.couples:
        return None
    return 1 if is_followed(asked(model, "conversion")) or optimizer.max_models == 1 else MAX_LANES


def is_followed(conversion: Any) -> bool:
    """Return whether a conversion, given as a record or by its name, chooses a single iterate."""
    known = CONVERSIONS.get(conversion) if isinstance(conversion, str) else conversion
    return known is not None and kind_of(known) == "conversion" and known.chooses_single_iterate


def _penalty_record(model: Any, d: int, starts_elsewhere: bool = False, names: Sequence[Any] | None = None) -> Any:
    pen, wanted = model.feature_weights, asked(model, "penalty")
    automatic = is_automatic(model, starts_elsewhere)
    penalty = phase_one(named("penalty", wanted, PENALTIES), d)
    if penalty is not ElasticNet and pen is not None:
        raise ValueError(f"feature_weights are weights of the L1 norm, which penalty={wanted!r} does not have.")
    if isinstance(penalty, tuple):
        if not (is_auto(model.alpha) and ratio_of(model) == 1.0):
            raise ValueError("a penalty record carries its own strength: leave alpha at 'auto' and l1_ratio at 1.")
        return penalty
    if wanted in BY_GROUP:
        groups = grouped(wanted, model.feature_groups, model.known_names() if names is None else names, d)
        if isinstance(model.alpha, str):
            return AutoGroups(AUTO_FRACTION, ratio_of(model), groups)
        return rescaled(groups, float(model.alpha), ratio_of(model))
    if penalty is not ElasticNet and isinstance(model.alpha, str):
        return Auto(AUTO_FRACTION, ratio_of(model), penalty)
    if penalty is not ElasticNet:
        return scaled(penalty, float(model.alpha), ratio_of(model))
    if pen is not None:
        pen = np.asarray(pen)
        if pen.dtype.kind not in "fiu" or pen.shape != (d,) or not np.all(np.isfinite(pen) & (pen >= 0)):
            raise ValueError(f"feature_weights must be {d} finite numbers of at least 0, one per feature.")
        pen = pen.astype(np.float64)
    if automatic:  # phase one has no penalty; phase two chooses one
        return elastic_net(0.0, 1.0, pen)
    if not isinstance(model.alpha, str):
        return elastic_net(float(model.alpha), ratio_of(model), pen)
    if isinstance(model.strengths, np.ndarray) and ratio_of(model) == 1.0:  # a path: alpha is not computed from rows
        return elastic_net(float(model.strengths.max()), 1.0, pen)
    return AutoElasticNet(AUTO_FRACTION, ratio_of(model), pen)


def parts(
    model: Any,
    penalty: Any,
    starts_elsewhere: bool = False,
    one_by_one: bool = False,
    by_row: ByRow | None = None,
    models: int = 1,
) -> tuple[Any, Any, Any, Any]:
    """Return the loss, optimizer, conversion and step-size rule of so many models, with every "auto" decided."""
    loss = model.loss_record()
    if loss.classifies and not model.classifies:
        raise ValueError(f"loss={model.loss!r} is for labels: a regression needs a loss of numbers such as 'squared'.")
    if model.classifies and not loss.classifies and type(loss) not in map(type, model.known_losses.values()):
        raise ValueError(f"loss={model.loss!r} is for numbers: a classifier needs a loss of labels such as 'logistic'.")
    if is_automatic(model, starts_elsewhere):
        if tolerance(model):
            check_polishable(loss, ElasticNet(1.0), conversions.Last())
            if model.budget is not None:
                raise ValueError("polish would undo budget, which keeps few features: choose one of the two.")
        conversion = named("conversion", model.conversion, CONVERSIONS) if promises(model) else _choice(model, by_row)
        return loss, OPTIMIZERS["nftrl"](), conversion, None
    curved = ratio_of(model) < 1.0 and model.alpha != 0.0
    if isinstance(asked(model, "penalty"), tuple) and not penalty.strength_is_open:
        curved = penalty.rho > 0.0
    step, optimizer, conversion = _step(model), asked(model, "optimizer"), asked(model, "conversion")
    if is_followed(conversion) and is_auto(optimizer):
        optimizer = "fobos"  # which computes the Bregman differences of its steps
    if is_auto(optimizer):
        # nftrl needs no step size, but starts from 0; if slopes have no bound, the capped steps of FOBOS are safer,
        # provided that the loss has a curvature to cap them by
        capped = curved and not loss.classifies and loss.smoothness_is_bound
        capped |= half_life_of(model) is not None and curved  # averages of nftrl have no lazy form there
        optimizer = "fobos" if capped or starts_elsewhere or step is not None else "nftrl"
        if not penalty.has_prox:
            optimizer = _for_coupled(penalty, loss, curved, optimizer, models, half_life_of(model) is not None)
        elif penalty.kind == "grouped" and optimizer == "nftrl":  # one rate for all outputs of a feature
            optimizer = "rda"
        elif one_by_one and step is None and penalty.kind == "separable":  # new features may come at any time
            optimizer = OPTIMIZERS["nftrl"](per_feature_clock=True)
    optimizer = named("optimizer", optimizer, _OPTIMIZERS)
    if is_auto(conversion) and optimizer.max_models == 1:
        # mirror descent has no gradient sums, but single iterates; Epoch-SGD takes the means of the paper
        conversion = conversions.LastEpoch(complete=False) if optimizer.works_in_epochs else "ocmdi"
    if is_auto(conversion):
        # the objective of a feature may start at its first appearance: no average over all rows fits that
        average = (smooth(loss) is not None or curved) and not optimizer.per_feature_clock
        average = average and not tolerance(model)  # polishing needs a start, not a sparse answer
        conversion = "average-sl" if average else "last"
    _check_step(model, step, optimizer)
    conversion = named("conversion", conversion, CONVERSIONS)
    if model.budget is not None or model.target_excess_risk is not None:
        if conversion.is_rounding:
            raise ValueError(f"{type(conversion).__name__} sets the number of features itself: leave budget at None.")
        how = "top-k" if model.target_excess_risk is None else "dd"
        conversion = conversions.Sparsify(model.budget, conversion, how, model.target_excess_risk)
    if tolerance(model):
        check_polishable(loss, penalty, conversion)
    return loss, optimizer, conversion, step


def _for_coupled(penalty: Any, loss: Any, has_l2: bool, otherwise: str, models: int, fades: bool) -> str:
    """Return the optimizer for a penalty that ties features together, where another one would take ``otherwise``.

    For groups of features, FOBOS gains most by AverageSL, which needs a curvature; its last iterate is not sparse.
    """
    if penalty.form != "groups" or models > WIDTHS[-1].m:
        return "batch-rda" if otherwise == "nftrl" else "batch-fobos"
    converts = loss.curved and loss.smoothness_is_bound and not has_l2
    return "fobos" if converts or fades or otherwise == "fobos" else "rda"


def _check_step(model: Any, step: Any, optimizer: Any) -> None:
    """Raise a ValueError for a step size that an optimizer does not use."""
    if step is not None and not optimizer.uses_steps:
        raise ValueError(
            f"step_size={model.step_size!r} has no effect on {type(optimizer).__name__}, which finds its "
            "own steps: leave it at 'auto' or choose optimizer='fobos' or 'sgd'."
        )


def _step(model: Any) -> Any:
    size = asked(model, "step_size")
    if isinstance(size, str):
        if size == "auto":
            return None
        rule = named("step_size", size, {"auto": None, **steps.RULES})
        if rule in (steps.StronglyConvex, steps.Convex):
            return rule()
        raise ValueError(f"step_size={size!r} needs its constant: pass sparsco.steps.{rule.__name__}(...).")
    if isinstance(size, numbers.Real):
        if not (is_number(size) and float(size) > 0.0):
            raise ValueError(f"step_size={size!r}: a constant step must be a positive number.")
        return steps.Constant(float(size))
    return named("step_size", size, steps.RULES)


def new_runs(
    model: Any,
    d: int,
    init: tuple[np.ndarray, np.ndarray] | None = None,
    one_by_one: bool = False,
    by_row: ByRow | None = None,
    names: Sequence[Any] | None = None,
    units: Units | None = None,
) -> list[Run]:
    """Return a new run for each of the model's targets.

    ``one_by_one`` is True for a stream of ``learn_one``; ``by_row`` has splits and groups of the rows of a fit.
    ``names`` are the names of the features, where the columns of the model have none.  ``units`` are those of the
    features, where the model has units; without them they are those of the first rows.
    """
    units = (units or Units()) if in_units(model, init is not None) else None
    _check_held_out(model, init is not None, by_row)
    fixed = by_column(model)
    if one_by_one and fixed:
        raise ValueError(f"{fixed} has one value per feature, and learn_one has no fixed features: use partial_fit.")
    penalty, every = _penalty_record(model, d, init is not None, names), model.targets_of_runs()
    most = max(targets.m for targets in every)
    loss, optimizer, conversion, step = parts(model, penalty, init is not None, one_by_one, by_row, most)
    conversion = with_weights(named("penalty", asked(model, "penalty"), PENALTIES), conversion)
    if trims(model):
        refuse(trimming_reason(penalty, optimizer, conversion))
    loss = loss_at(model, loss)
    # a choice without arguments is the same each time
    is_fixed = is_automatic(model, init is not None) and model.random_state is None
    seed = 0 if is_fixed else seed_of(model.random_state)
    runs, first = [], 0
    for targets in every:
        part = slice(first, first + targets.m)
        first += targets.m
        own = None if init is None else (init[0][:, part], init[1][part])
        runs += [
            Run(
                loss,
                penalty,
                optimizer,
                conversion,
                step,
                d=d,
                targets=targets,
                intercept=bool(model.fit_intercept),
                seed=seed,
                initial=own,
                lams=lams,
                single=model.in_float32,
                half_life=half_life_of(model),
                units=units,
            )
            for lams in _strengths(model.strengths, targets.m, None if tolerance(model) else model.n_jobs)
        ]
    return runs


def _strengths(lams: Any, models: int, n_jobs: int | None) -> list[Any]:
    """Return the strengths of each run, if there are several.

    A run takes as many as its lanes have room for, or fewer, so that every thread has some.  None of several is alone:
    kernels of one model have other last digits.  Those of a polish start at each other, whatever the threads.
    """
    if lams is None:
        return [None]
    threads = 1
    if n_jobs is not None:
        from joblib import effective_n_jobs

        threads = effective_n_jobs(n_jobs)
    room, least = max(1, MAX_LANES // models), 2 if models == 1 else 1
    sizes = (*range(max(least, -(-len(lams) // threads)), room + 1), *range(room, 0, -1))
    size = next(size for size in sizes if models > 1 or len(lams) % size != 1)
    return [lams[first : first + size] for first in range(0, len(lams), size)]


def by_column(model: Any) -> str:
    """Return the parameter that has a value for every column; an empty string if there is none."""
    for name in ("feature_weights", "feature_groups"):
        if getattr(model, name) is not None:
            return name
    fixed = isinstance(model.penalty, tuple) and is_of_fixed_width(model.penalty)
    return f"penalty={type(model.penalty).__name__}(...)" if fixed else ""
