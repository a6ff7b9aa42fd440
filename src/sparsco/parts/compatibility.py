"""Compatibility of parts, checked only here, by the attributes that the parts declare.

Each function returns a sentence that explains why a combination does not work, or None; ``refuse`` raises it.
"""

from __future__ import annotations

from typing import Any

from ..jit.lanes import WIDTHS


def refuse(reason: str | None) -> None:
    """Raise a ValueError with a reason, if there is one."""
    if reason is not None:
        raise ValueError(reason)


def penalty_reason(optimizer: Any, penalty: Any) -> str | None:
    """Return why an optimizer cannot learn with a penalty, or None."""
    works = optimizer.works_on_whole_arrays or penalty.form in optimizer.supported_penalties
    return None if works else optimizer.refusal(penalty)


def l2_reason(optimizer: Any, penalty: Any) -> str | None:
    """Return why an optimizer cannot learn with the strength of a penalty's L2 term, or None."""
    name, rho = type(optimizer).__name__, penalty.rho
    if optimizer.l2_term == "required" and not rho > 0.0:
        return f"{name} needs rho > 0 (l1_ratio < 1): without an L2 term choose optimizer='nftrl' or 'fobos'."
    if optimizer.l2_term == "excluded" and rho > 0.0:
        return f"{name} learns without an L2 term: give a penalty with rho=0."
    return None


def weights_reason(loss: Any, penalty: Any, conversion: Any) -> str | None:
    """Return why weighted problems cannot stand for a penalty that is not convex, or None."""
    if penalty.rounds:
        name = type(penalty).__name__
        return f"{name} is for phase two: learn with {name}(...).convex, and convert by Reweighted({name}(), ...)."
    if conversion.is_rounding and conversion.reweights and loss.couples:
        return (
            f"{type(conversion.penalty).__name__} solves weighted problems of one model at a time, and "
            f"{type(loss).__name__} ties models together: choose loss='logistic' for one model per class."
        )
    return None


def models_reason(optimizer: Any, m: int) -> str | None:
    """Return why an optimizer cannot learn so many models in one run, or None."""
    if not optimizer.works_on_whole_arrays and m > WIDTHS[-1].m:
        return (
            f"{type(optimizer).__name__} learns at most {WIDTHS[-1].m} models that are tied together, not {m}: choose "
            "optimizer='batch-fobos', or loss='logistic' for one model per class."
        )
    return None


def tied_models_reason(optimizer: Any, m: int) -> str | None:
    """Return why an optimizer, in its final form, cannot learn so many coupled models, or None."""
    if optimizer.max_models is None or m <= optimizer.max_models:
        return None
    return f"{type(optimizer).__name__} learns one model at a time, not {m} that are tied together."


def conversion_reason(optimizer: Any, conversion: Any) -> str | None:
    """Return why a conversion cannot use an optimizer's iterates, or None."""
    name, base = type(optimizer).__name__, conversion.base
    if base.needs_epochs and not optimizer.works_in_epochs:
        return (
            f"{type(base).__name__} needs an optimizer that works in epochs, such as 'epoch-gd', and {name} has none: "
            "choose conversion='suffix' for the mean of late iterates."
        )
    if base.chooses_single_iterate and not optimizer.can_track_iterates:
        return (
            f"{name} does not provide the Bregman differences of its steps: choose optimizer='fobos', "
            "'sgd' without an L1 term, or mirror descent."
        )
    if base.needs_gradient_sums and not optimizer.sums_gradients:
        return f"{name} has no exact gradient sums with {type(base).__name__}."
    return None


def forgetting_reason(optimizer: Any, conversion: Any, step: Any, penalty: Any) -> str | None:
    """Return why parts, in their final forms, have no discounted form for half_life, or None."""
    base = conversion.base
    if not optimizer.forgets:
        return (
            f"half_life has no form for {type(optimizer).__name__} with {type(penalty).__name__}: choose "
            "optimizer='nftrl', 'ftrl', 'fobos' or 'rda' and a penalty of single weights, or leave half_life at None."
        )
    if not base.forgets:
        return (
            f"half_life has no form for {type(base).__name__}: choose conversion='average-sl', 'average' or 'last', or "
            "leave half_life at None."
        )
    if optimizer.uses_steps and step.sizes_at is None:
        return (
            f"half_life needs steps at numbers that are not whole, which {type(step).__name__} does not have "
            "(sizes_at): leave step_size at 'auto'."
        )
    return None


def metric_reason(loss: Any, conversion: Any) -> str | None:
    """Return why a conversion has no metric with a loss, or None."""
    base, name = conversion.base, type(loss).__name__
    if base.metric in (None, "auto") or base.L is not None:
        return None
    if base.metric == "smoothed":
        if loss.kinks is not None:
            return None
        return f"metric='smoothed' needs a loss with kinks, which {name} does not have: leave the metric at 'auto'."
    if loss.curved:
        return None
    other = "choose metric='smoothed' or 'auto'" if loss.kinks is not None else "leave the metric at 'auto'"
    return f"metric={base.metric!r} needs a loss with curvature, which {name} does not have: {other}, or give L."


def start_reason(optimizer: Any) -> str | None:
    """Return why an optimizer cannot start at given weights, or None."""
    if optimizer.starts_anywhere:
        return None
    return (
        f"coef_init needs an optimizer that moves from a starting point (fobos, sgd), not {type(optimizer).__name__}, "
        "whose iterate is a function of gradient sums."
    )


def strengths_reason(
    loss: Any, penalty: Any, optimizer: Any, conversion: Any, single: bool = False, models: int = 1
) -> str | None:
    """Return why several strengths of so many models cannot be learned side by side, or not in float32, or None."""
    why, base, has_groups = None, conversion.base, penalty.form == "groups"
    if loss.couples:
        why = f"{type(loss).__name__} ties models together"
    elif has_groups and models > 1:
        why = f"{penalty.record.__name__} ties the {models} models of a strength together"
    elif has_groups and single:
        why = f"{penalty.record.__name__} is learned in float64"
    elif not has_groups and (penalty.kind != "separable" or not penalty.has_prox):
        why = f"{penalty.record.__name__} has no prox of one weight at a time"
    elif conversion.is_rounding and conversion.reweights:
        name = type(conversion.penalty).__name__
        why = f"{name} solves weighted problems of one strength; compare several by scikit-learn's GridSearchCV"
    elif base.chooses_single_iterate:
        why = f"{type(base).__name__} follows the iterates of one model"
    elif optimizer.max_models == 1 or optimizer.works_on_whole_arrays:
        why = f"{type(optimizer).__name__} has one strength for all models"
    elif base.metric is not None and not penalty.is_absolute and not has_groups:
        why = f"{type(base).__name__} converts all models of {type(penalty).__name__} together"
    if why is not None:
        return f"several strengths cannot be learned in one read here: {why}."
    return single_reason(loss, optimizer, conversion) if single else None


def single_reason(loss: Any, optimizer: Any, conversion: Any) -> str | None:
    """Return why lanes cannot be float32, or None."""
    if optimizer.supports_float32 and not conversion.base.watch(loss).n_sums():
        return None
    return (
        "dtype='float32' is for the last iterates (conversion='last') of fobos, nftrl and ftrl, not for "
        f"{type(conversion.base).__name__} of {type(optimizer).__name__}: sums of iterates need float64."
    )


def trimming_reason(penalty: Any, optimizer: Any, conversion: Any) -> str | None:
    """Return why features cannot leave the state of a method, or None."""
    why, base = None, conversion.base
    if not optimizer.can_forget_features:
        why = f"{type(optimizer).__name__} has a state that ties features together: choose optimizer='nftrl' or 'fobos'"
    elif not penalty.has_prox:
        why = f"{penalty.record.__name__} ties features together: choose penalty='elasticnet'"
    elif not base.can_forget_features:
        why = f"{type(base).__name__} keeps what it knows by feature: choose conversion='last' or 'average-sl'"
    return None if why is None else f"max_features and trim let features leave, but {why}."


def partitions_reason(optimizer: Any) -> str | None:
    """Return why the states of several partitions cannot be averaged, or None."""
    if optimizer.can_be_averaged and not optimizer.per_feature_clock:
        return None
    name = type(optimizer).__name__ + ("(per_feature_clock=True)" if optimizer.per_feature_clock else "")
    return (
        f"{name} has a state that cannot be averaged over partitions: choose optimizer='nftrl', 'ftrl', 'fobos', "
        "'rda', 'adagrad-fobos' or 'adagrad-rda'."
    )
