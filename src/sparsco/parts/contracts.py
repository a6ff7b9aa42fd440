"""The contracts of all parts: the required and optional members of a loss, a penalty, a mirror map and so on.

A part is a ``NamedTuple`` record whose functions are on its class.  ``@part(Loss)`` above the class declares its
contract.  The decorator adds every default of the contract that the class body does not define.  It raises a TypeError
if a required member is missing.  So code can use any attribute of a part's contract without probing.  A subclass of a
part is a part of the same kind.

>>> from typing import NamedTuple
>>> @part(StepRule)
... class Half(NamedTuple):
...     def sizes(self, t, n):
...         return np.full(n, 0.5)
>>> Half().cap, kind_of(Half())
(False, 'step rule')

Functions that kernels call (``derivative``, ``prox``, ``primal``, ...) have their defaults here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..jit.dispatch import dispatched, optional
from .part import Contract, default, required, required_function, required_unless
from .part import kind_of as kind_of
from .part import part as part


def weighted_moments(targets: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard deviation of each column."""
    total = np.maximum(weights.sum(0), 1e-300)
    mean = (weights * targets).sum(0) / total
    return mean, np.sqrt((weights * np.square(targets - mean)).sum(0) / total)


class Loss(Contract, kind="loss"):
    """A loss of the margin p = <w, x> + b and the target y, convex in p, averaged over examples.

    ``derivative`` and ``curvature`` run inside kernels, on one model or on several lanes; ``value`` on arrays.
    """

    classifies = required("bool", "Whether targets are labels, -1 and +1; otherwise they are numbers.")
    smoothness = required("number", "A bound on the curvature, or without one the scale by which steps are chosen.")
    curved = required("bool", "Whether there is a curvature that a metric can be built from.")
    smoothness_is_bound = default(
        "bool", True, "Whether no curvature exceeds smoothness; else optimizer='auto' is NFTRL."
    )
    bends_everywhere = default(
        "bool", False, "Whether the second derivative is bounded, and above zero at every margin."
    )
    shifts = default(
        "bool", False, "Whether only p - y matters: targets y - offset then stand for those with an offset."
    )
    degree = default(
        "number or None",
        None,
        "k, where targets c y have c^k times the loss, but for terms without p: at c p where the loss shifts, else at "
        "p + log(c). None: there is no such k.",
    )
    couples = default(
        "bool",
        False,
        "Whether the lanes of an example are tied (arrays: along the last axis).  Then a target is 1 for the example's "
        "class, 0 for other classes and -1 in lanes without a model; values add up over lanes.",
    )

    @required_function
    def value(loss: Any, p: Any, y: Any) -> Any:
        """Return the loss at margin p for target y; the sum over lanes is the loss of the example."""
        raise NotImplementedError

    @required_function
    def derivative(loss: Any, p: Any, y: Any) -> Any:
        """Return d loss / d p; at a kink 0, where that is a subgradient."""
        raise NotImplementedError

    @required_function
    def curvature(loss: Any, p: Any, y: Any) -> Any:
        """Return the second derivative in p, 0 where the loss has none; for coupled lanes the Hessian's diagonal."""
        raise NotImplementedError

    def check(loss: Any) -> None:
        """Raise a ValueError for invalid constants. By default all are valid."""

    def refuse(loss: Any, y: np.ndarray) -> None:
        """Raise a ValueError for targets that the loss does not support. By default all are supported."""

    def refuse_offset(loss: Any, offset: np.ndarray) -> None:
        """Raise a ValueError for offsets that the loss does not support. By default all are supported."""

    def resolve(loss: Any, targets: np.ndarray, weights: np.ndarray) -> Any:
        """Return the record with its open scale filled in from the first rows. By default the record itself."""
        return loss

    def in_units_of(loss: Any, unit: float) -> Any:
        """Return the record for margins and targets that were divided by a unit. By default the record itself."""
        return loss

    def moments(
        loss: Any, targets: np.ndarray, weights: np.ndarray, offset: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the spread of the targets (n, m) of each model, for ``units``; y - offset for offsets."""
        targets = targets if offset is None or loss.classifies else targets - offset
        return weighted_moments(targets, weights)

    def units(loss: Any, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the initial intercept and the scales of margins and derivatives, for targets of this mean and spread.

        By default they follow from the slopes at the mean, for targets one std to either side.
        """
        if loss.classifies:
            return np.zeros_like(mean), np.ones_like(std), np.ones_like(std)
        slopes = [derivative(loss, mean, mean + side) for side in (-std, std)]
        scale = np.sqrt(0.5 * (np.square(slopes[0]) + np.square(slopes[1])))
        return mean, std, np.where(scale > 0.0, scale, 1.0)

    def predicted(loss: Any, p: np.ndarray) -> np.ndarray:
        """Return the numbers that a regression predicts at margins p. By default the margins."""
        return p

    probabilities = default(
        "function or None", None, "probabilities(p): of each class at margins p (n, models). None: no predict_proba."
    )
    conjugate = default(
        "function or None", None, "conjugate(c, y): sup_p c p - loss(p, y) at slopes c. None: no duality gap."
    )
    shares = default(
        "function or None",
        None,
        "shares(p, y): for a loss that couples, s such that the Hessian of an example is diag(s) - s s^T. None: polish "
        "refuses the loss.",
    )
    kinks = default("function or None", None, "kinks(y): the margins (kinks, n) at which slopes jump. None: none do.")


value, derivative, curvature = dispatched(Loss.value), dispatched(Loss.derivative), dispatched(Loss.curvature)


FORMS = ("absolute", "separable", "grouped", "l1-ball", "groups", "whole")
"""The forms: pen_j |w_j|, another lazy prox of one weight or one feature, an L1 ball, feature groups, whole arrays."""


class Penalty(Contract, kind="penalty"):
    """A penalty psi(w) = r(w) + (rho / 2) ||w||^2 with a nonsmooth r, of strength lam.

    It has a ``prox`` of one feature's weights, which lazy kernels use, or only a ``prox_all`` of whole arrays, which
    the mini-batch optimizers use.  The prox of idle steps must add up: prox(prox(v, s), t) = prox(v, s + t).
    """

    lam = required("number", "The strength of r, at least 0; 0 for a constraint.", unless="strength_is_open")
    rho = required("number", "The strength of the L2 term, at least 0.", unless="strength_is_open")
    kind = default("text", "separable", "How r ties weights: separable, grouped (features, outputs) or global (all).")
    form = default("text", "", "Absolute, separable, grouped, l1-ball, groups or whole; optimizers check it. Derived.")
    cost = default("text", "", "What a prox takes, for messages. Derived.")
    pen = default("array or None", None, "The relative weight of each feature. None: all weigh 1.")
    open_fields = default("names", (), "Fields that may be None until resolve fills them in.")
    strength_is_open = default("bool", False, "Whether it is a placeholder, whose at(lam_max) returns the penalty.")
    rounds = default("number", 0, "The most weighted problems that phase two solves for it. 0: it is convex.")
    suggested_batch = default("count or None", None, "Examples in a mini-batch. None: the optimizer's own number.")
    dual_norm = default(
        "function or None", None, "dual_norm(G), without the record, for dual_norm_at. None: strengths must be given."
    )
    blocks = default(
        "function or None",
        None,
        "blocks(d): the penalty of d features as numbers (penalties.blocks.Blocks), for exact solvers. None: polish "
        "refuses it.",
    )

    @required_unless("strength_is_open")
    def strength(penalty: Any, w: np.ndarray) -> Any:
        """Return psi(w), summed over features: one number for a vector, one per column for a matrix.

        It is one number for a matrix whose columns are coupled, and infinite outside a constraint set.
        """
        raise NotImplementedError

    def prox(penalty: Any, v: Any, s: Any) -> Any:
        """Return argmin_u (u - v)^2 / 2 + s r(u), with r the nonsmooth part at weight one.

        By default there is none, and prox_all is required.
        """
        raise NotImplementedError

    def shrink_rate(penalty: Any, v: Any) -> Any:
        """Return the rate at which the prox shrinks v: |prox(v, s)| = max(|v| - s shrink_rate(v), 0).

        By default 1, as for the absolute value.
        """
        return 1.0

    def prox_step(penalty: Any, v: Any, s: Any, g: Any) -> Any:
        """Return prox(v, s) - g, in float32 preferably with one rounding of v. By default with two roundings."""
        return prox(penalty, v, s) - g

    def feature_weight(penalty: Any, j: Any) -> Any:
        """Return pen_j, the relative weight of feature j in the nonsmooth part. By default 1."""
        return 1.0

    def feature_weights(penalty: Any, d: int) -> np.ndarray:
        """Return pen as a vector of d numbers. By default ones."""
        return np.ones(d)

    def prox_all(penalty: Any, W: np.ndarray, s: Any) -> np.ndarray:
        """Return argmin_U ||U - W||^2 / 2 + s psi(U) over whole arrays; psi has its lam, but no L2 term here."""
        pen = penalty.feature_weights(len(W))
        return prox(penalty, W, s * (penalty.lam * (pen if W.ndim == 1 else pen[:, None])))

    def coarsened(penalty: Any, M: np.ndarray) -> Any:
        """Return M (d, m) raised so far that the prox in its metric is prox_all with s = 1 / M.

        By default M, or its largest number where the penalty is global.
        """
        return float(M.max(initial=0.0)) if penalty.kind == "global" else M

    def check(penalty: Any, d: int) -> None:
        """Raise a ValueError for fields that are invalid with d features. By default all are valid."""

    def dual_norm_at(penalty: Any, G: np.ndarray) -> float | None:
        """Return the least lam at which w = 0 is optimal, for the gradient G (d, m) there. By default dual_norm(G)."""
        return None if penalty.record.dual_norm is None else penalty.record.dual_norm(G)

    def resolve(penalty: Any, norm: Callable[[], float]) -> Any:
        """Return the record with open fields filled in; norm() is the L1 norm of a ridge regression on the first rows.

        By default the record itself.
        """
        return penalty

    def reweighted(penalty: Any, w: np.ndarray) -> Any:
        """Return the WeightedElasticNet that stands for it near w (d,), where rounds > 0."""
        raise NotImplementedError

    @property
    def convex(penalty: Any) -> Any:
        """The penalty of phase one: by default itself."""
        return penalty

    @property
    def record(penalty: Any) -> Any:
        """The class of the penalty; for a penalty with open strength, the class that it will have."""
        return type(penalty)

    @property
    def has_strength(penalty: Any) -> bool:
        """Whether the nonsmooth part has a positive strength."""
        return penalty.lam > 0.0

    @staticmethod
    def derive(cls: Any) -> None:
        """Set ``form`` (one of ``FORMS``), ``has_prox``, ``is_absolute`` and, where the body has none, ``cost``."""
        if cls.strength_is_open:
            return
        if cls.rounds:  # kernels see the elastic net that stands for it
            cls.form, cls.has_prox, cls.is_absolute, cls.cost = FORMS[0], True, True, "O(nonzeros) per example"
            return
        cls.has_prox = cls.prox is not Penalty.prox
        if not cls.has_prox and cls.prox_all is Penalty.prox_all:
            raise TypeError(
                f"{cls.__name__} is marked as a penalty: define prox(self, v, s) for one feature's weights or "
                "prox_all(self, W, s) for whole arrays."
            )
        cls.is_absolute = cls.has_prox and cls.shrink_rate is Penalty.shrink_rate
        if cls.has_prox:
            cls.form = "absolute" if cls.is_absolute else cls.kind
        elif cls.form not in FORMS[3:]:
            cls.form = "whole"
        if not cls.cost:
            cls.cost = "O(nonzeros) per example" if cls.has_prox else "O(features) per mini-batch"


prox, strength = dispatched(Penalty.prox), dispatched(Penalty.strength)
shrink_rate, prox_step, feature_weight = (
    optional(Penalty.shrink_rate),
    optional(Penalty.prox_step),
    optional(Penalty.feature_weight),
)


class Mirror(Contract, kind="mirror map"):
    """A mirror map Psi: the geometry of a step.  An optimizer keeps the dual variable v = grad Psi(w)."""

    is_separable = required("bool", "Whether the map acts on each coordinate by itself.")

    @required_function
    def to_dual(mirror: Any, w: np.ndarray) -> np.ndarray:
        """Return v = grad Psi(w)."""
        raise NotImplementedError

    @required_function
    def value(mirror: Any, w: np.ndarray) -> float:
        """Return Psi(w)."""
        raise NotImplementedError

    def check(mirror: Any) -> None:
        """Raise a ValueError for invalid constants. By default all are valid."""

    def compiled(mirror: Any) -> Any:
        """Return the record for kernels. By default the record itself."""
        return mirror

    def primal(mirror: Any, v: Any) -> Any:
        """Return one coordinate of w = grad Psi*(v), for a separable map."""
        raise NotImplementedError

    def conjugate(mirror: Any, v: Any) -> Any:
        """Return one coordinate's part of Psi*(v), for a separable map."""
        raise NotImplementedError

    def relaxed(mirror: Any, t: Any, s: float) -> Any:
        """Return the v with v + s w(v) = t, the result of an L2 term of strength s, for a separable map."""
        raise NotImplementedError

    def power(mirror: Any, v: Any, largest: Any) -> Any:
        """Return a coordinate's weight without the factor; largest is the largest |v|, above 0. By default primal."""
        return primal(mirror, v)

    def portion(mirror: Any, v: Any, raised: Any, largest: Any) -> Any:
        """Return a coordinate's part of the total; raised is its power. By default conjugate."""
        return conjugate(mirror, v)

    def factor(mirror: Any, largest: Any, total: Any) -> Any:
        """Return the factor that turns powers into weights. By default 1."""
        return 1.0

    def height(mirror: Any, largest: Any, total: Any) -> Any:
        """Return Psi*(v). By default the total."""
        return total


primal, conjugate, relaxed = dispatched(Mirror.primal), dispatched(Mirror.conjugate), dispatched(Mirror.relaxed)
power, portion = optional(Mirror.power), optional(Mirror.portion)
factor, height = optional(Mirror.factor), optional(Mirror.height)


class StepRule(Contract, kind="step rule"):
    """A step-size rule, in plain NumPy."""

    cap = default("bool", False, "Whether a step is shortened where it would overshoot its own example.")

    @required_function
    def sizes(self: Any, t: int, n: int) -> np.ndarray:
        """Return the steps of examples t + 1, ..., t + n: (n,), positive."""
        raise NotImplementedError

    sizes_at = default(
        "function or None",
        None,
        "sizes_at(counts): the steps of examples with these numbers, which need not be whole. None: no half_life.",
    )

    def resolve(self: Any, problem: Any, pilot: Any) -> Any:
        """Return the rule with open constants filled in from the first rows. By default the rule itself."""
        return self


class Optimizer(Contract, kind="optimizer"):
    """An update rule: a layout of the state, a kernel, and the arrays that depend on time alone."""

    uses_steps = required("bool", "Whether it takes steps of a step rule; otherwise it finds its own.")
    layout = required("record", "The Layout: numbers per feature and per lane.", unless="chooses_form")
    learn = required(
        "function",
        "learn(rows, order, schedule, method, state): one step per row, the state changed in place.",
        unless="chooses_form",
    )
    chooses_form = default(
        "bool", False, "Whether resolve returns another optimizer that learns; then no kernel is needed here."
    )
    columns = default("number", 1, "Columns of the block's table of prefix sums.")
    supported_penalties = default("names", ("absolute",), "The forms of penalties that its kernels support.")
    works_on_whole_arrays = default(
        "bool", False, "Whether it works on whole arrays by prox_all: any penalty, any number of models."
    )
    is_minibatch = default("bool", False, "Whether it steps once per mini-batch, of batch examples, by its own cap.")
    penalises_each_model = default(
        "bool", False, "Whether a penalty that ties all weights ties those of one model only, each for itself."
    )
    max_models = default("count or None", None, "Models that one run learns at most. None: as many as there are lanes.")
    supports_float32 = default("bool", False, "Whether lanes may be float32, where nothing is summed.")
    needs_curvature = default("bool", False, "Whether resolve needs the largest curvature on the first rows.")
    l2_term = default("text", "optional", 'Whether rho > 0 is "optional", "required" or "excluded".')
    sums_gradients = default("bool", True, "Whether its kernel sums gradients, which average-sl and last-sl need.")
    can_track_iterates = default("bool", False, "Whether one of its forms compares iterates, for scmdi and ocmdi.")
    works_in_epochs = default("bool", False, "Whether it has epochs, which next_epoch(t) ends.")
    starts_anywhere = default("bool", False, "Whether place can begin at given weights (coef_init).")
    can_be_averaged = default("bool", False, "Whether a mean over settled states of several partitions is a state.")
    can_be_rounded = default(
        "bool", False, "Whether its state may be rounded to float32: it holds sums of gradients, not weights."
    )
    can_forget_features = default(
        "bool", False, "Whether a feature's cell of zeros is all that a feature without a past needs (max_features)."
    )
    is_dense = default("bool", False, "Whether every example costs O(features).")
    keeps_recent_features = default(
        "bool", False, "Whether its last iterate keeps the features of recent examples, however small the steps are."
    )
    forgets = default("bool", False, "Whether its state may fade: the discounted form, for half_life.")
    fading_columns = default("number", 0, "Columns of the block's table that its discounted form adds.")
    per_feature_clock = default("bool", False, "Whether lam and rho count for a feature from its first appearance on.")
    l2_in = default("text", "prox", "Where the L2 term is: in the prox or in the gradient.")
    weights_at = default(
        "function or None",
        None,
        "weights_at(problem, state, block, t, features): the iterate at some features, (features, m), and the "
        "intercepts. None: only all weights can be read.",
    )
    next_epoch = default(
        "function or None", None, "next_epoch(t): the number of examples at which the epoch after t ends. None: none."
    )
    mirror = default("record or None", None, "The mirror map of its steps, of a form that compares iterates.")

    @property
    def base(self: Any) -> Any:
        """The optimizer itself; for a form for some penalties, the optimizer that it is a form of."""
        return self

    @required_unless("chooses_form")
    def schedule(self: Any, problem: Any, state: Any, block: Any, t: int, eta: np.ndarray, omega: np.ndarray) -> Any:
        """Return the arrays by time for the next len(omega) examples, or for fewer; the record has a field omega."""
        raise NotImplementedError

    def check(self: Any, problem: Any) -> None:
        """Raise a ValueError for an unsupported problem or invalid constants. By default all are supported."""

    def refusal(self: Any, penalty: Any) -> str:
        """Return the error message for a penalty whose form is not supported."""
        name, penalised = type(self).__name__, type(penalty).__name__
        if penalty.has_prox or penalty.form == "groups":
            return f"{name} has no form for {penalised}: choose optimizer='fobos' or 'rda'."
        return (
            f"{name} cannot handle {penalised}, whose prox is {penalty.kind} and costs {penalty.cost}: choose "
            "optimizer='batch-fobos' or 'batch-rda'."
        )

    def prepared(self: Any, problem: Any, pilot: Any, matrix: Any, weights: np.ndarray) -> tuple[Any, Any]:
        """Return the record and the pilot, adapted to mini-batches. By default both unchanged."""
        return self, pilot

    def default_rule(self: Any, problem: Any) -> Any:
        """Return the step rule for users who give none.

        By default None: strongly convex where rho > 0, else convex.
        """

    def resolve(self: Any, problem: Any, pilot: Any, rule: Any) -> Any:
        """Return the record with open constants filled in from the first rows. By default the record itself."""
        return self

    def tracking_form(self: Any, problem: Any) -> Any:
        """Return the form that tracks iterates; it has dual, kept, compare and mirror. By default the record."""
        return self

    def is_lazy(self: Any, problem: Any, uniform: bool) -> bool:
        """Return whether the watched sums are exact in the kernel, for uniform or other weights.

        By default where gradients are summed, or only iterates.
        """
        return self.sums_gradients or problem.sums <= 1 or problem.tracks_iterates

    def start(self: Any, problem: Any) -> tuple[Any, Any]:
        """Return the initial state and its block. By default zeros."""
        return self.layout.start(problem, self.columns)

    def place(self: Any, problem: Any, state: Any, w: np.ndarray, b: np.ndarray) -> None:
        """Start from w (d, m) and b (m,) instead of zero. By default the first lane field is the weights."""
        _, lanes, bias = self.layout.views(problem, state)
        lanes[:, 0, : problem.m] = w
        if problem.intercept:
            bias[0, : problem.m] = b

    def settle(self: Any, problem: Any, state: Any, block: Any, t: int) -> None:
        """Bring all idle coordinates and their sums up to date, and start a new block. By default they are current."""
        block.start = t

    def weights(self: Any, problem: Any, state: Any, block: Any, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the iterate after t examples, (d, m) and (m,). By default the first field of lanes and intercept."""
        _, lanes, bias = self.layout.views(problem, state)
        return lanes[:, 0, : problem.m].copy(), bias[0, : problem.m].copy()

    def renew(self: Any, problem: Any, state: Any, factor: float) -> None:
        """Multiply all that a settled state sums by a factor, where old examples fade. By default the watched sums."""
        for sums in self.layout.sums(problem, state):
            sums *= factor

    def averaged(self: Any, problem: Any, state: Any, t: int = 0) -> None:
        """Turn a settled state into numbers whose mean over partitions is a state, and back. By default no change."""


from .conversion_contracts import Conversion as Conversion  # noqa: E402  the last kinds, in this order
from .conversion_contracts import Rounding as Rounding  # noqa: E402
