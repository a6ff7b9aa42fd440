"""The iterate of a run: weights and intercepts read out of an optimizer's state, which is not changed."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from ..data.rows import Matrix
from ..optimizers.epoch_gd import epoch_mean
from ..problem.moving import WORTH_READING
from ..problem.state import Block, Problem, State, aligned_zeros, slices

WORTH_COMPILING = 1 << 12
"""Features at which a kernel reads the iterate sooner than NumPy does."""
_SETTLED = 1 << 16
"""Features whose cells are copied to be settled, few enough for a cache."""


class Overwritten(NamedTuple):
    """What the last row of a chunk overwrote: the cells of its features, the intercept and the clock."""

    touched: Any
    cells: np.ndarray
    bias: np.ndarray
    clock: np.ndarray
    t: int


class Iterate(NamedTuple):
    """An optimizer's state after t examples, of which the first d features are read."""

    problem: Problem
    optimizer: Any
    state: State
    block: Block
    t: int
    d: int

    @property
    def reads_parts(self) -> bool:
        """Whether some of the features can be read by themselves, so that no copy of the whole state is needed."""
        separable = self.problem.penalty.kind == "separable"
        return separable and self.d > 0 and self.optimizer.weights_at is not None

    @property
    def cells(self) -> np.ndarray:
        """The numbers of each feature: a view, (room, stride)."""
        return self.state.cell.reshape(self.problem.d, self.optimizer.layout.stride(self.problem))

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights (d, m) and intercepts (m,)."""
        problem, state, apart = self.problem, self.state, self.reads_parts
        if apart and (problem.lams is not None or self.d >= WORTH_READING):
            return self.optimizer.weights_at(problem, state, self.block, self.t, np.arange(self.d))
        if apart and self.d < problem.d:  # features that there is room for, and that have not come, are left alone
            problem, state = problem.at(slice(0, self.d)), state._replace(cell=self.cells[: self.d].ravel())
        w, b = self.optimizer.weights(problem, state, self.block, self.t)
        return w[: self.d], b

    def weights_at(self, features: np.ndarray, often: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of some features, (features, m), and the intercepts; the others are not read.

        If this is done ``often``, a kernel is worth its compilation even for few features; the bits are the same.
        """
        problem = self.problem
        if problem.penalty.kind != "separable":
            w, b = self.weights()
            return w[features], b
        many = often or problem.lams is not None or len(features) >= WORTH_COMPILING
        if many and self.optimizer.weights_at is not None:
            return self.optimizer.weights_at(problem, self.state, self.block, self.t, features)
        state = self.state._replace(cell=self.cells[features].ravel())
        return self.optimizer.weights(problem.at(features), state, self.block, self.t)

    def epoch_mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean iterate of the epoch under way, of an optimizer that works in epochs."""
        w, b = epoch_mean(self.optimizer, self.problem, self.state, self.block, self.t)
        return w[: self.d], b

    def settled_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the window's sums, settled: of the features, (sums, d, width), and of the intercept."""
        problem, layout, apart = self.problem, self.optimizer.layout, self.reads_parts
        sums, bias = np.empty((problem.sums, self.d, problem.width)), np.empty(0)
        twin, parts = self.block.copy(), slices(self.d, _SETTLED) if apart else [slice(0, problem.d)]
        head, cells = twin.table[0].copy(), aligned_zeros(parts[0].stop * layout.stride(problem))
        for some in parts:
            part, block = problem.at(some) if apart else problem, copy.copy(twin)
            copied = State(cells[: self.cells[some].size], self.state.bias.copy(), self.state.clock.copy())
            copied.cell[:] = self.cells[some].ravel()
            self.optimizer.settle(part, copied, block, self.t)
            twin.table[0] = head  # a settling starts a new block
            found, bias = layout.sums(part, copied)
            sums[:, some] = np.moveaxis(found[: self.d], 1, 0)
        return sums, bias

    def about_to_learn(self, matrix: Matrix, row: int) -> Overwritten:
        """Return what this row will overwrite."""
        touched: Any = slice(0, self.problem.d)
        if not self.optimizer.is_dense and self.problem.penalty.form != "groups":  # a group is moved as a whole
            touched = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].astype(np.int64)
        return Overwritten(touched, self.cells[touched].copy(), self.state.bias.copy(), self.state.clock.copy(), self.t)

    def before(self, last: Overwritten) -> Iterate:
        """Return a copy in which what the last row overwrote is put back."""
        earlier = self._replace(state=self.state.copy(), t=last.t)
        earlier.cells[last.touched] = last.cells
        earlier.state.bias[:], earlier.state.clock[:] = last.bias, last.clock
        return earlier
