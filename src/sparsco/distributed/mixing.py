"""The two phases for rows in partitions: phase one by parameter mixing, phase two exactly.

In a round every partition learns its next rows from the state that all share.  The mean of the states, weighted by
rows, is the next state.  The rows of a round double from one to the next.  A partition sends only the numbers of
features that have changed, and by how much.  Then, at the point that phase one found, gradients and curvatures are
summed over all rows, and a uniform sample of the rows is drawn.  The sums over partitions are what one stream of all
rows would have given.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..conversions.averaging import Answer, Average, Last, Suffix
from ..conversions.choose import Choose
from ..conversions.gradient_phase import FixedPoint
from ..conversions.path_stability import PathStability
from ..conversions.reservoir import Reservoir
from ..conversions.sparse_learning import AverageSL, LastSL, OptimalSL, map_to_sparse
from ..engine.finishing import finish_runs
from ..engine.run import Run
from ..parts.compatibility import partitions_reason, refuse
from ..problem.state import Means, Rows, State
from ..training.labelled_rows import LabelledRows
from .executors import Here, OnDask
from .messages import Job, Message, Update, merged
from .partitions import Partition, Place
from .progress import MOST_ROWS, Progress
from .sparse import Sparse

LEAST_ROWS, FIRST_ROWS = 64, 1024
"""The rows of each partition in the first round, for small partitions and for others."""
STEPS = 1 << 14
"""The number of steps of phase one that is always enough.

By default small partitions are read again until they have made that number of steps, or as many as there are rows. The
mean of the states has made as many steps as one partition.
"""
_SPARSE_LEARNING = (OptimalSL, AverageSL, LastSL)


def first_rows(sizes: Sequence[int]) -> int:
    """Return the rows of a partition in the first round: a sixteenth of the mean of these sizes, within bounds.

    The smaller a partition is, the sooner the states must be averaged.
    """
    return int(np.clip(sum(sizes) // (16 * max(int(np.count_nonzero(sizes)), 1)), LEAST_ROWS, FIRST_ROWS))


def learn(items: Sequence[tuple[Partition, Place, int]], job: Job, *levels: Message) -> Iterator[Message]:
    """Learn the next rows of some partitions, from the state that the levels add up to, and yield a message for each.

    An item is a partition, a place in it and the number of rows to learn at most.
    """
    starts = [Start.of(run, [level.updates[k] for level in levels]) for k, run in enumerate(job.runs)]
    for item in items:
        yield _learned(*item, job, starts)


def _learned(partition: Partition, place: Place, most: int, job: Job, starts: Sequence[Start]) -> Message:
    """Learn the next rows of a partition from the shared state, and return the message."""
    partition = partition.read_with(job.names)
    runs, counted = [start.copy() for start in starts], np.zeros(2, np.int64)

    def use(part: LabelledRows, row: int) -> None:
        matrix, codes, weights, order = job.rows(part, partition.name, row)
        for run in runs:
            run.learn(matrix, codes, weights, order)
        counted[:] += part.rows, matrix.indptr[-1] - matrix.indptr[0]

    following = partition.take(place, most, use)
    updates = tuple(start.update(run, most) for start, run in zip(starts, runs, strict=True))
    nonzeros = sum(update.cells.nonzeros + update.sums.nonzeros for update in updates)
    rows, entries = counted.tolist()
    return Message(updates, (following,), (rows,), 0, nonzeros, entries)


@dataclass(frozen=True)
class Start:
    """A run at the state that all partitions share, and the numbers of this state that are averaged."""

    run: Run
    columns: list[np.ndarray]
    rest: np.ndarray

    @classmethod
    def of(cls, template: Run, updates: Sequence[Update]) -> Start:
        """Return the run whose state is the sum of these changes."""
        run = started(template, updates)
        state = run.state.copy()
        run.optimizer.averaged(run.problem, state)
        columns = [column.astype(np.float64) for column in _columns(run, state)]
        return cls(run, columns, _rest(run, state))

    def copy(self) -> Run:
        """Return an independent run at this state."""
        run = copy.copy(self.run)
        run.state, run.block = self.run.state.copy(), copy.deepcopy(self.run.block)
        run.go_on_at(self.run.t)
        return run

    def update(self, run: Run, most: int) -> Update:
        """Return the change from here to a run, which ends with this, after at most ``most`` rows."""
        problem, n = run.problem, run.t - self.run.t
        run.optimizer.settle(problem, run.state, run.block, run.t)
        sums, bias = run.optimizer.layout.restart_sums(problem, run.state)
        run.optimizer.averaged(problem, run.state)
        share, changes = n / most, []
        for column, before in zip(_columns(run, run.state), self.columns, strict=True):
            change = column[: run.d].astype(np.float64)
            change[: len(before)] -= before
            changes.append(change if share == 1.0 else share * change)
        exact = not run.optimizer.can_be_rounded
        return Update(
            n,
            share,
            Sparse.of_columns(run.d, changes, exact),
            share * (_rest(run, run.state) - self.rest),
            Sparse.of(sums[: run.d, 0, : problem.m], exact),
            bias[0, : problem.m],
        )


def started(template: Run, updates: Sequence[Update]) -> Run:
    """Return a run whose state is the sum of these changes."""
    run = copy.copy(template)
    run.d = max([run.d, *(update.cells.d for update in updates)])
    run.problem = problem = run.problem._replace(d=run.d)
    run.state, run.block = run.optimizer.start(problem)
    run.t = 0
    run.optimizer.averaged(problem, run.state)
    rest, columns = _rest(run, run.state), _columns(run, run.state)
    for update in updates:
        update.cells.add_to(columns)
        rest = rest + update.rest
    layout, m = run.optimizer.layout, problem.m
    layout.bias_of(problem, run.state)[: layout.bias, :m] = rest[: layout.bias * m].reshape(layout.bias, m)
    run.state.clock[:] = rest[layout.bias * m : -1]
    run.go_on_at(round(float(rest[-1])))
    run.optimizer.averaged(problem, run.state, run.t)
    run.optimizer.settle(problem, run.state, run.block, run.t)
    return run


def _columns(run: Run, state: State) -> list[np.ndarray]:
    """Return views of the numbers by feature that are averaged, in a state that ``averaged`` was applied to."""
    shared, lanes, _ = run.optimizer.layout.views(run.problem, state)
    fields = range(run.optimizer.layout.lane)
    return [*shared.T, *(lanes[:, field, model] for field in fields for model in range(run.problem.m))]


def _rest(run: Run, state: State) -> np.ndarray:
    """Return the other numbers that are averaged: of the intercepts, the optimizer's scalars and the clock."""
    layout = run.optimizer.layout
    bias = layout.bias_of(run.problem, state)[: layout.bias, : run.problem.m]
    return np.concatenate([bias.ravel(), state.clock, [run.t]])


@dataclass(frozen=True)
class Point:
    """A model at which gradients are summed."""

    w: Sparse
    b: np.ndarray


@dataclass(frozen=True)
class Gradients:
    """Sums of gradients and curvatures by feature and for the intercepts, and a sample of the rows, for each run."""

    sums: tuple[Sparse, ...]
    bias: tuple[np.ndarray, ...]
    samples: tuple[Reservoir | None, ...]
    n: int
    sent: int = 0

    @property
    def bytes(self) -> int:
        """Return the size in bytes without the samples, each of which has at most a million nonzeros."""
        return sum(part.bytes for part in self.sums) + sum(part.nbytes for part in self.bias)

    def __sizeof__(self) -> int:
        return self.bytes + sum(16 * sample.max_nonzeros for sample in self.samples if sample is not None)


def gradients(
    items: Sequence[tuple[Partition, int]],
    job: Job,
    points: Sequence[Point],
    budgets: Sequence[int],
    size: tuple[int, int],
) -> Iterator[Gradients]:
    """Yield the sums of gradients over all rows of each partition; the last has the sample of all rows of these.

    An item is a partition and the number of its first row among all.  ``size`` are the number of all rows and of their
    nonzeros.
    """
    reservoirs: list[Reservoir | None] = []
    for run, budget in zip(job.runs, budgets, strict=True):
        reservoir = Reservoir(run.seed, run.columns_to_keep, budget) if budget else None
        if reservoir is not None:
            reservoir.expect(*size)
        reservoirs.append(reservoir)
    at = [(point.w.dense(), point.b) for point in points]
    for number, (partition, first) in enumerate(items, 1):
        sums = _summed_gradients(partition, first, job, at, reservoirs)
        yield sums if number == len(items) else replace(sums, samples=(None,) * len(reservoirs))


def _summed_gradients(
    partition: Partition,
    first: int,
    job: Job,
    points: Sequence[tuple[np.ndarray, np.ndarray]],
    reservoirs: Sequence[Reservoir | None],
) -> Gradients:
    """Return the sums of gradients over all rows of a partition, which are also offered to the reservoirs."""
    partition = partition.read_with(job.names)
    fixed = []
    for run, (w, b), reservoir in zip(job.runs, points, reservoirs, strict=True):
        problem = run.problem._replace(d=len(w))
        fixed.append((FixedPoint(w, b, problem), problem))
        if reservoir is not None:
            reservoir.go_on_at(first)

    def use(part: LabelledRows, row: int) -> None:
        matrix, codes, weights, order = job.rows(part, partition.name, row)
        for run, (sums, problem), reservoir in zip(job.runs, fixed, reservoirs, strict=True):
            if matrix.d > len(sums.w):
                sums.grow(matrix.d)
            targets, scaled = run.targets.encode(codes[order], weights[order], problem.width)
            sums.learn(Rows(matrix.indptr, matrix.indices, matrix.data, targets, scaled), order, problem)
            if reservoir is not None:
                run.offer(reservoir, matrix, codes, weights, order)

    partition.take(Place(), np.inf, use)
    return Gradients(
        tuple(Sparse.of(np.concatenate([sums.G[:, : sums.m], sums.H[:, : sums.m]], axis=1)) for sums, _ in fixed),
        tuple(sums.bias[:, : sums.m].copy() for sums, _ in fixed),
        tuple(reservoirs),
        fixed[0][0].n,
    )


def summed(left: Gradients, right: Gradients) -> Gradients:
    """Return two sums of gradients as one."""
    pairs = zip(left.samples, right.samples, strict=True)
    return Gradients(
        tuple(a + b for a, b in zip(left.sums, right.sums, strict=True)),
        tuple(a + b for a, b in zip(left.bias, right.bias, strict=True)),
        tuple((b if a is None else a) if a is None or b is None else a.joined(b) for a, b in pairs),
        left.n + right.n,
        left.sent + right.sent + right.bytes,
    )


# ---- the coordinator -------------------------------------------------------------------------------------------------


class Mixing:
    """A run of both phases over all partitions."""

    def __init__(
        self,
        shell: Any,
        runs: Sequence[Run],
        partitions: Sequence[Partition],
        names: Mapping[str, Any],
        pool: Here | OnDask,
        progress: Progress,
        keep: Callable[[Progress], None] = lambda progress: None,
        show: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Make a run that goes on at ``progress``; ``keep`` is called after each round."""
        self.pool, self.runs, self.progress, self.keep = pool, list(runs), progress, keep
        self.conversions = [_allowed(run) for run in self.runs]
        templates = tuple(_template(run) for run in self.runs)
        self.job = Job(shell, templates, names)
        self.held_job, self.held = pool.hold(self.job), [pool.hold(partition) for partition in partitions]
        self.held_levels: list[tuple[Message, Any]] = []
        """The levels of the state, each with its form for tasks."""
        self.second: dict[str, Any] = {}
        self.show = show or (lambda what, done, total: None)

    def phase_one(self, passes: int | None) -> None:
        """Run rounds until every partition was read ``passes`` times; with None until it has made STEPS steps."""
        while self.progress.passes < (passes or self._enough()):
            while self.progress.active:
                self.progress = self._after_round()
                self.keep(self.progress)
            self.progress = self.progress.after_pass()

    def _enough(self) -> int:
        """Return the number of passes after which a partition has made enough steps."""
        rows, parts = sum(self.progress.rows), int(np.count_nonzero(self.progress.rows))
        return max(1, -(-min(STEPS, rows) * parts // max(rows, 1)))

    def _after_round(self) -> Progress:
        """Run a round, and return the state after it."""
        now = self.progress
        what, items = f"round {len(now.rounds) + 1}", [(self.held[k], now.places[k], now.size) for k in now.active]
        total: Message = self.pool.reduce(
            "sparsco-learn",
            learn,
            items,
            self.held_job,
            *self._levels(),
            merge=merged,
            most=max(MOST_ROWS // now.size, 1),
            seen=lambda done, of: self.show(what, done, of),
        )
        return now.after(total, not isinstance(self.conversions[0], Average))

    def _levels(self) -> list[Any]:
        """Return the levels of the state in the form for tasks; only new levels are sent."""
        held = {id(level): held for level, held in self.held_levels}
        levels = self.progress.levels
        self.held_levels = [
            (level, held[id(level)] if id(level) in held else self.pool.hold(level)) for level in levels
        ]
        return [held for _, held in self.held_levels]

    def phase_two(self) -> list[Answer]:
        """Return the converted models."""
        runs = [
            started(run, [level.updates[k] for level in self.progress.levels]) for k, run in enumerate(self.job.runs)
        ]
        window = self.progress.windows[0] + self.progress.windows[1]
        points, means = [], []
        for k, run in enumerate(runs):
            w, b = run.weights()
            mean = w, b
            if window.sums is not None and window.rows:
                sums, bias = window.sums[k]
                mean = np.zeros_like(w), bias / window.rows
                sums.add_to(list(mean[0].T))
                mean = mean[0] / window.rows, mean[1]
            means.append(mean)
            points.append((w, b) if isinstance(self.conversions[k], LastSL) else mean)
        found = self._gradients(points)
        if self.conversions[0].joins_runs:
            return self._chosen(runs, found)
        answers = []
        for k, (run, full) in enumerate(zip(runs, self.runs, strict=True)):
            run.end_like(full, self.progress.learned)
            answers.append(self._answer(run, k, points[k], means[k], window.rows, found))
            self.runs[k] = run
        return answers

    def _chosen(self, runs: list[Run], found: Gradients | None) -> list[Answer]:
        """Return the models that a conversion of all runs together makes from the sample of all rows."""
        assert found is not None
        for k, (run, full) in enumerate(zip(runs, self.runs, strict=True)):
            run.end_like(full, self.progress.learned)
            run.conversion, run.reservoir = full.conversion, found.samples[k]
            self.runs[k] = run
        return finish_runs(runs)

    def _gradients(self, points: list[tuple[np.ndarray, np.ndarray]]) -> Gradients | None:
        budgets = []
        for run, conversion in zip(self.runs, self.conversions, strict=True):
            budgets.append(run.sample_nonzeros(conversion))
        if not any(budgets) and not isinstance(self.conversions[0], _SPARSE_LEARNING):
            return None
        at = [Point(Sparse.of(w), b) for w, b in points]
        held = self.pool.hold(at)
        rows = self.progress.rows
        firsts = np.cumsum([0, *rows[:-1]]).tolist()
        items = list(zip(self.held, firsts, strict=True))
        found: Gradients = self.pool.reduce(
            "sparsco-gradients",
            gradients,
            items,
            self.held_job,
            held,
            budgets,
            (sum(rows), self.progress.entries),
            merge=summed,
            most=max(MOST_ROWS * len(items) // max(sum(rows), 1), 1),
            seen=lambda done, of: self.show("phase two", done, of),
        )
        down = sum(point.w.bytes + point.b.nbytes for point in at) * len(items)
        self.second = {"rows": found.n, "up": found.sent + found.bytes, "down": down}
        return found

    def _answer(
        self,
        run: Run,
        k: int,
        point: tuple[np.ndarray, np.ndarray],
        mean: tuple[np.ndarray, np.ndarray],
        n: int,
        found: Gradients | None,
    ) -> Answer:
        conversion = self.conversions[k]
        if found is not None:
            run.reservoir = found.samples[k]
        if isinstance(conversion, _SPARSE_LEARNING):
            assert found is not None
            sums, bias, m = np.zeros((run.d, found.sums[k].k)), found.bias[k] / found.n, run.problem.m
            found.sums[k].add_to(list(sums.T))
            sums /= found.n
            means = Means(*point, sums[:, :m], bias[0], sums[:, m:], bias[1], found.n)
            answer = map_to_sparse(conversion, run, means, *point, conversion.last_factor)
        elif isinstance(conversion, Last):
            answer = Answer(*run.weights(), {})
        else:
            answer = Answer(*mean, {"averaged": n})
        run.conversion = _Known(answer)
        try:
            return run.finish()
        finally:
            run.conversion = conversion


@dataclass(frozen=True)
class _Known:
    """A conversion whose answer is already computed."""

    answer: Answer

    def finish(self, run: Run) -> Answer:
        """Return the answer."""
        return self.answer


def _allowed(run: Run) -> Any:
    """Return the conversion that is used over partitions; raise a ValueError if it needs the iterates of one stream."""
    conversion = run.conversion
    if isinstance(conversion, AverageSL):  # its mean gradient along the way approximates the exact one
        return OptimalSL(alpha=conversion.alpha, L=conversion.L, metric=conversion.metric)
    if isinstance(conversion, Last | Suffix | OptimalSL | LastSL | Choose | PathStability) or conversion == Average():
        return conversion
    raise ValueError(
        f"{type(conversion).__name__} needs single iterates of one stream, which partitions do not have: choose "
        "conversion='optimal-sl', 'last-sl', 'suffix', 'average' or 'last'."
    )


def _template(run: Run) -> Run:
    """Return a small copy of a run with the same method and constants but without a state."""
    refuse(partitions_reason(run.optimizer))
    return run.template(Average())
