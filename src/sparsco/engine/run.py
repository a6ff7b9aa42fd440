"""Phase one, phase two: a stream of examples in, an exactly sparse vector out.

A :class:`Run` is one stream being learned.  Its life is short to tell:

1. ``feed`` collects the first 1000 rows, the pilot.
2. ``begin`` fills in what the pilot rows decide (``resolving.py``), then learns them.
3. ``feed`` learns further rows, in pieces.  A piece ends where something is due: an event of the conversion, which may
   open a window (``windows.py``), a point of the history, a settling of idle coordinates.
4. ``finish`` asks the conversion for the answer.  It may be called at any time, and changes nothing.

What is due is due at numbers of examples that depend on the method alone, never on the chunks.  So any cut of a stream
gives the same bits.  Features and classes may come late (``growth.py``).
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..conversions.averaging import Answer, Last
from ..conversions.reservoir import Reservoir
from ..data.rows import Matrix, longest_row, stack
from ..parts.compatibility import forgetting_reason, metric_reason, refuse, start_reason, strengths_reason
from ..parts.part import NEVER
from ..penalties import checked
from ..problem.fading import new_memory
from ..problem.state import Means, Nothing, Problem, Rows, check_room
from ..problem.targets import Repeated, Targets, Values
from ..solver.units import Units
from ..steps import Pilot, check_positive
from ..util.attributes import add_attributes, attributes, replace_attributes
from ..util.notices import cause, warn
from ..util.threads import aside
from .grid import strength_of_lanes
from .growth import add_features, add_models
from .iterates import Iterate, Overwritten
from .part_checks import check_parts, for_one_feature, two_targets
from .pilot_rows import PilotRows, mean_loss, reservoir_of
from .resolving import Asked, resolve
from .run_elsewhere import Elsewhere
from .run_rows import KeepsRows
from .stepping import block_end, rows_for_kernels, some_rows, step_sizes
from .windows import Windows

PILOT_ROWS = 1000
_CHUNK = 1 << 16
"""Rows times lanes of one call of a kernel: a call of few rows costs time, one of many memory."""
_LAST = Last()


class DivergenceError(ArithmeticError):
    """Training blew up; no model is returned."""


class Run(KeepsRows, Elsewhere):
    """One stream, learned by one optimizer and converted by one conversion."""

    keeps_given_targets = False
    """Whether a sample keeps y as it is given, from which the targets of all runs are made."""
    is_start = False
    """Whether the answer is no model, but the start of a polish."""
    state: Any = None
    """The state of the optimizer; None before there is one, and where the rows are only measured or sampled."""
    reservoir: Reservoir | None = None
    """The sample of the rows, for conversions that need one."""
    snapshots: Any = ()
    """Iterates that a conversion keeps: (examples, weights, intercepts)."""
    half_life: float | None = None
    """The time, in the units of the rows' times, after which an example counts half as much; None: always in full."""
    units: Units | None = None
    """The units of the features, where rows are divided by them: all that is learned and kept is in these units."""

    def __init__(
        self,
        loss: Any,
        penalty: Any,
        optimizer: Any,
        conversion: Any = _LAST,
        step: Any = None,
        *,
        d: int,
        targets: Targets | None = None,
        intercept: bool = True,
        seed: int = 0,
        initial: tuple[np.ndarray, np.ndarray] | None = None,
        lams: Any = None,
        single: bool = False,
        half_life: float | None = None,
        units: Units | None = None,
    ) -> None:
        """Check the parts and make a run that has seen nothing.

        ``lams``: a strength of the L1 term for each of several copies of the models, in place of the penalty's;
        numbers, or a ``Grid`` below the smallest that selects nothing on the pilot rows.  ``single``: in float32.
        ``units``: those that features are penalised in; None: features are penalised as they are.
        """
        check_parts(loss, penalty, optimizer, conversion, step)
        self.conversion, self.rounding = conversion.base, conversion if conversion.is_rounding else None
        self.keeps_given_targets, self.is_start = self.conversion.joins_runs, False
        self.targets: Targets = targets or Values()
        self.lams, self.half_life, self.units = lams, half_life, units
        if lams is not None:
            refuse(strengths_reason(loss, penalty, optimizer, conversion, single, self.targets.m))
            self.targets = Repeated(self.targets, len(lams))
        refuse(metric_reason(loss, conversion))
        penalty = checked(penalty, d)
        if self.rounding is not None:
            self.rounding.suits(penalty, d)
        check_room(8 * d * self.targets.m)  # state and sums, and what is computed of them
        lanes = strength_of_lanes(lams, self.targets)
        self.problem = Problem(loss, penalty, d, self.targets.m, intercept, Nothing(), lanes, single)
        """Its d is the number of features there is room for; see ``grow``."""
        self.d = d
        self.optimizer, self.step, self.seed, self.initial = optimizer, step, seed, initial
        self._asked = optimizer, step
        self.late = False
        """Whether it is the run of a class that appeared after the pilot."""
        self.t = 0
        """Examples learned by the optimizer."""
        self.seen = 0
        """Examples seen, those of gradient phases included."""
        self.pilot: Pilot | None = None
        """The scales of the pilot rows; None while they are collected."""
        self.history: list[dict[str, float]] = []
        self.warnings: list[str] = []
        self.told: list[str] = []
        """The causes of the warnings that were given; runs of one model share it."""
        self.collected: list[tuple[Any, ...]] = []
        self._buffered = 0

    # ---- rows in -------------------------------------------------------------------------------------------------

    def feed(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray | None = None,
        order: np.ndarray | None = None,
        is_repeat_pass: bool = False,
        times: np.ndarray | None = None,
    ) -> None:
        """Learn the rows in ``order`` (all, in theirs, by default); the first 1000 are kept back as the pilot.

        ``is_repeat_pass`` says that these rows have been seen before: a further pass, of which nothing is sampled.
        ``times`` are those of all rows, which never fall in ``order``, where the run has a half-life.
        """
        order = np.arange(len(matrix)) if order is None else np.asarray(order, dtype=np.int64)
        weights = np.ones(len(matrix)) if weights is None else weights
        if not np.all(weights):
            order = order[weights[order] != 0.0]
        if is_repeat_pass:
            self.begin()  # a stream shorter than the pilot
        if self.pilot is None:
            taken = order[: PILOT_ROWS - self._buffered]
            own = () if times is None else (times[taken],)
            self.collected.append((matrix.take(taken), y[taken], weights[taken], *own))
            self._buffered += len(taken)
            order = order[len(taken) :]
            if self._buffered < PILOT_ROWS:
                return
            self.begin()
        if self.units is None:
            return self._advance(matrix, y, weights, order, is_repeat_pass, times)
        for first in range(0, len(order), self._most_rows):
            part = order[first : first + self._most_rows]
            rows = self.units.divided(matrix, part), y[part], weights[part], np.arange(len(part))
            self._advance(*rows, is_repeat_pass, None if times is None else times[part])

    @property
    def examples(self) -> int:
        """The number of examples taken in so far, those held back as the pilot included."""
        return self._buffered if self.pilot is None else self.seen

    def set_stream_length(self, n: int) -> bool:
        """Let the conversion have the number of examples in all; return whether it makes use of it."""
        if self.pilot is not None:
            return False
        given = self.conversion.for_length(n)
        is_new, self.conversion = given is not self.conversion, given
        return is_new

    def begin(self) -> None:
        """Fill in what the pilot rows decide, then learn them; ``feed`` calls this when 1000 have come."""
        if self.pilot is not None:
            return
        times = None if self.half_life is None else np.concatenate([part[3] for part in self.collected])
        matrix, y, weights = self._measure()
        self._get_ready()
        self._advance(matrix, y, weights, np.arange(len(matrix)), times=times)

    def _measure(self) -> tuple[Matrix, np.ndarray, np.ndarray]:
        """Fill in what the collected rows decide, and return these rows."""
        matrix = stack([part[0] for part in self.collected])
        y, weights = (np.concatenate([part[k] for part in self.collected]) for k in (1, 2))
        self.collected = []
        if self.units is not None:
            self.units = self.units.begun(matrix, weights, self.d)
            matrix = self.units.divided(matrix, np.arange(len(matrix)))
            if self.initial is not None:
                self.initial = self.for_learned_rows(self.initial[0]), self.initial[1]
        self._resolve(Matrix(*matrix[:3], self.d), y, weights)
        return matrix, y, weights

    def _resolve(self, matrix: Matrix, y: np.ndarray, weights: np.ndarray) -> None:
        """Fill in what the pilot rows decide."""
        self.pilot_rows = PilotRows(matrix, y, weights, *self.lanes_of(y, weights))
        asked = Asked(self.problem, self.optimizer, self.conversion, self.step, self.targets, self.lams)
        resolved = resolve(asked, self.pilot_rows, self.warn)
        self.problem, self.optimizer, self.step, self.pilot, self.prepared = resolved

    def _get_ready(self) -> None:
        """Get ready for the first example."""
        self.state, self.block = self.optimizer.start(self.problem)
        if self.half_life is not None:
            refuse(forgetting_reason(self.optimizer, self.conversion, self.step, self.problem.penalty))
            self.block.fade(new_memory(self.half_life, self.problem), self.optimizer.fading_columns)
        if self.initial is not None:
            refuse(start_reason(self.optimizer))
            self.optimizer.place(self.problem, self.state, *self.initial)
        nonzeros = self.sample_nonzeros(self.conversion)
        nonzeros = self.pilot_rows.room(nonzeros, self.conversion) if nonzeros else 0
        self.reservoir = reservoir_of(self, nonzeros) if nonzeros else None
        self.windows = Windows()
        self.overwritten: Overwritten | None = None
        """What the last row overwrote, for conversions that ask for the iterate before it."""
        self.conversion.begin(self)
        self._next_event = self.conversion.next_event(self, 0)
        self._next_history_point = PILOT_ROWS if self.lams is None else NEVER  # a sum over strengths says nothing

    # ---- phase one -----------------------------------------------------------------------------------------------

    def _advance(
        self,
        matrix: Matrix,
        y: np.ndarray,
        weights: np.ndarray,
        order: np.ndarray,
        is_repeat_pass: bool = False,
        times: np.ndarray | None = None,
    ) -> None:
        """Learn rows in pieces, each up to the next example at which something is due."""
        keep = self.conversion.keeps_before_last
        self.block.make_scratch(longest_row(matrix.indptr, order), self.problem.width)
        k, most = 0, self._most_rows
        while k < len(order):
            self._do_what_is_due(None if times is None else float(times[order[k]]))
            n = some_rows(min(len(order) - k, most, self._next_event - self.seen, self._next_history_point - self.seen))
            if keep and n > 1 and k + n == len(order):
                n -= 1  # the last row alone, so that w_T can be recovered
            if self.windows.needs_every_iterate:
                n = 1
            part = order[k : k + n]
            rows = rows_for_kernels(
                matrix, y[part], weights[part], self.targets, self.problem, has_grid=self.lams is not None
            )
            if self.windows.in_gradient_phase:
                self.windows.sum_gradients(rows, part, self.problem)
                self.seen += n
            else:
                if keep and n == 1:
                    self.overwritten = self.iterate.about_to_learn(matrix, int(part[0]))
                n = self._learn(rows, part, None if times is None else times[part])
            k += some_rows(n)
        if self.reservoir is not None and not is_repeat_pass:
            self.offer(self.reservoir, matrix, y, weights, order, times)

    @property
    def _most_rows(self) -> int:
        """Return the number of rows of one call of a kernel."""
        return max(_CHUNK // self.problem.width, 1 << 10)

    def _do_what_is_due(self, time: float | None) -> None:
        """Do what has to happen before the next example, which has this time where old examples fade."""
        if self.seen == self._next_history_point:
            self.history.append(self.history_point(*self.weights()))
            self._next_history_point = 4 * self.seen
        if self.seen == self._next_event:
            with aside():
                self.conversion.event(self, self.seen)
            self._next_event = self.conversion.next_event(self, self.seen)
        is_long = self.problem.sums and self.t >= block_end(self.block.start)
        is_faded = time is not None and self.block.memory.is_due(time)
        if is_long or self.block.full or is_faded:
            with aside():
                self.optimizer.settle(self.problem, self.state, self.block, self.t)
        if is_faded:
            self.block.memory, factor = self.block.memory.renewed(time)
            self.optimizer.renew(self.problem, self.state, factor)
            self.windows.renew(factor)

    def _learn(self, rows: Rows, order: np.ndarray, times: np.ndarray | None) -> int:
        """Learn the first rows in ``order`` by one call of the kernel; return how many they were."""
        problem, t, n = self.problem, self.t, len(order)
        if problem.sums:
            n = min(n, block_end(self.block.start) - t)
        counts = None
        if times is not None:
            n, counts = self.block.look_ahead(times[:n])
        eta = step_sizes(self.step, self.optimizer, problem, rows, order, t, n, counts)
        omega = self.conversion.omega_of(self, t, n)
        omega = omega if times is None else omega * self.block.pace.a
        if self.windows.needs_every_iterate:
            self.windows.add_iterate(self.iterate, omega[0])
        schedule = self.optimizer.schedule(problem, self.state, self.block, t, eta, omega)
        n = len(schedule.omega)
        with aside():
            self.optimizer.learn(rows, order[:n], schedule, problem.method, self.state)
        self.t += n
        self.seen += n
        self.windows.count(omega[:n], problem, self.block.pace)
        if times is not None:
            self.block.memory = self.block.memory.after(times[:n], self.block.pace)
        if not np.isfinite(problem.unpacked(self.state.bias)).all():
            self._raise_diverged()
        return n

    def _raise_diverged(self) -> None:
        raise DivergenceError(
            f"training diverged by example {self.seen}: choose smaller steps (step_size=), scale the features, or keep "
            "the default step size and optimizer."
        )

    # ---- phase two -----------------------------------------------------------------------------------------------

    def finish(self) -> Answer:
        """Return the converted model; the run itself is left as it is."""
        if self.pilot is None:
            return self.begun().finish()
        answer = self.checked(self.conversion.finish(self))
        return answer._replace(w=self.for_given_rows(answer.w))

    def checked(self, answer: Answer) -> Answer:
        """Return the answer, rounded where there is a rounding; raise a DivergenceError for one that is useless."""
        w, b = answer.w, answer.b
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = np.isfinite(w.sum()) and np.isfinite(b.sum())
        if not is_finite or self.pilot_rows.refute(self.problem, w, b, has_grid=self.lams is not None):
            self._raise_diverged()
        return answer if self.rounding is None else self.rounding.round(answer, self)

    def history_point(self, w: np.ndarray, b: np.ndarray) -> dict[str, float]:
        """Return a point of the history: the objective on the pilot rows and the support of this model.

        Of a model that a refit took out of an L1 ball the objective is the mean loss.
        """
        loss = self.pilot_rows.mean_loss(self.problem.loss, w, b)
        objective = loss + float(np.sum(self.problem.strengths(w)))
        if objective == np.inf and self.rounding is not None:
            objective = loss
        return {"t": self.seen, "objective": objective, "nonzeros": int(np.count_nonzero(w))}

    def mean_loss(
        self, matrix: Matrix, targets: np.ndarray, weights: np.ndarray, w: np.ndarray, b: np.ndarray
    ) -> float:
        """Return the mean of weight times loss over these rows, summed over models; targets and weights are (n, m)."""
        return mean_loss(self.problem.loss, matrix, targets, weights, w, b)

    # ---- what conversions ask for: parts/run_view.py ---------------------------------------------------------------
    @property
    def iterate(self) -> Iterate:
        return Iterate(self.problem, self.optimizer, self.state, self.block, self.t, self.d)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the current iterate: weights (d, m) and intercepts (m,), for rows in units."""
        return self.iterate.weights()

    def weights_at(self, features: np.ndarray, often: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the current iterate at some features, (features, m), and the intercepts, for rows as they came.

        Other features are not read.
        """
        w, b = self.iterate.weights_at(features, often)
        return self.for_given_rows(w, features), b

    def for_given_rows(self, w: np.ndarray, features: np.ndarray | slice = np.s_[:]) -> np.ndarray:
        """Return weights (features, models) for rows as they came, from weights for the rows that are learned."""
        return w if self.units is None else self.units.weights(w, features)

    def for_learned_rows(self, w: np.ndarray) -> np.ndarray:
        """Return weights (features, models) for the rows that are learned, from weights for rows as they came."""
        return w if self.units is None else w * self.units.at(np.s_[: len(w)])[:, None]

    def weights_before_last(self) -> tuple[np.ndarray, np.ndarray]:
        """Return w_T, the iterate before the last example."""
        now = self.iterate
        return (now if self.overwritten is None else now.before(self.overwritten)).weights()

    def epoch_mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean iterate of the epoch under way, of an optimizer that works in epochs."""
        return self.iterate.epoch_mean()

    def open_window(self) -> None:
        """Start a window here, with sums of zero; a gradient phase under way ends."""
        self.problem, self.state = self.windows.open(self.iterate, self.conversion, self.warn)

    def rotate_window(self) -> None:
        """Let the current window be the previous one, and start a new one."""
        self.windows.rotate(self.iterate)

    def start_gradient_phase(self) -> None:
        """Stop learning: sum the gradients at the mean of the window from here on."""
        self.windows.start_gradient_phase(self.iterate, self.warn)

    @property
    def window_weight(self) -> float:
        """The total weight of the iterates in the current window."""
        return self.windows.weight

    def means(self) -> Means:
        """Return the means over the previous and the current window."""
        return self.windows.means(self.iterate, self.warn)

    def fixed_point(self) -> Means | None:
        """Return the means of the gradient phase to answer from; None before there is one."""
        return self.windows.fixed_point(self.d)

    def warn(self, message: str) -> None:
        """Keep a message for the report, and warn where no run of the same model has warned of the same cause."""
        if message not in self.warnings:
            self.warnings.append(message)
            if cause(message) not in self.told:
                self.told.append(cause(message))
                warn(message)

    # ---- late features and classes ---------------------------------------------------------------------------------

    def grow(self, d: int) -> None:
        """Let there be d features, as if the new ones had been declared from the start and not been seen yet."""
        add_features(self, d)

    def retarget(self, targets: Targets) -> None:
        """Let there be more models, as if they had been there from the start while pilot rows are still collected.

        Later it is as if they had been lanes without a model so far (target -1, weight 0).
        """
        add_models(self, targets)

    def new_class_run(self, targets: Targets) -> Run:
        """Return a run for a class that first appears now: the same method and constants, nothing learned."""
        problem, (optimizer, step) = self.problem, self._asked
        run = Run(
            problem.loss,
            problem.penalty,
            optimizer,
            self.rounding or self.conversion,
            step,
            d=self.d,
            targets=targets,
            intercept=problem.intercept,
            seed=self.seed,
            half_life=self.half_life,
            units=None if self.units is None else self.units.copy(),
        )
        run.late, run.told = True, self.told
        run._resolve(*self.pilot_rows[:3])
        run._get_ready()
        return run

    # ---- copies before there is a pilot ----------------------------------------------------------------------------

    def validate_on_dummy_rows(self) -> None:
        """Raise an error for settings that cannot work, before the thousandth row comes."""
        twin = copy.copy(self)
        twin.problem = self.problem._replace(d=1, penalty=for_one_feature(self.problem.penalty))
        twin.initial = self.initial and (self.initial[0][:1], self.initial[1])
        matrix = Matrix(np.arange(3), np.zeros(2, np.uint32), np.array([-1.0, 1.0]), 1)
        twin._resolve(matrix, two_targets(self.problem.loss), np.ones(2))
        twin._get_ready()
        if twin.optimizer.uses_steps:
            check_positive(twin.step.sizes(0, 1), 0)

    def before_pilot(self) -> dict[str, Any]:
        """Return all there is to put back when something goes wrong while rows are still collected."""
        return attributes(self) | {"collected": list(self.collected), "history": [], "warnings": list(self.warnings)}

    def go_back(self, before: dict[str, Any]) -> None:
        """Put back what ``before_pilot`` returned."""
        replace_attributes(self, before)

    def twin(self) -> Run:
        """Return a copy that has collected the same rows, and collects further ones for itself."""
        twin = copy.copy(self)
        add_attributes(twin, self.before_pilot())
        return twin

    def begun(self) -> Run:
        """Return this run; if it still collects rows, a copy that has learned them."""
        if self.pilot is not None:
            return self
        twin = self.twin()
        twin.begin()
        return twin

    def measured_copy(self) -> Run:
        """Return a twin that knows what the rows collected so far decide, but does not learn them: it has no state."""
        twin = self.twin()
        twin.seen = len(twin._measure()[1])
        return twin
