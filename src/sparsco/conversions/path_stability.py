"""A selection with a promise: features that nearly all halves of the rows select, refitted without the penalty.

Phase one keeps a uniform sample of the rows, and an iterate that predicts while the stream goes on.  Phase two solves
L1 paths on random halves of the sample (``error_control``), selects the features that keep the promise, and learns
them again from all rows of the sample.  While the sample holds the whole stream, that is the selection of all rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..error_control.scores import Target
from ..error_control.selecting import Plan, Selection, doubts_of, refit, select
from ..parts.contracts import Conversion, part
from ..penalties import ElasticNet, elastic_net
from ..problem.state import Nothing
from ..util.threads import pool_in_use
from ..util.validation import is_number
from .averaging import Answer
from .choose import Choose, Outcome, Sampled

MOST_PAIRS = 10_000
KEPT_NONZEROS = 8_000_000
"""The nonzeros of the rows that are kept; a stream that has no more is judged as a whole."""
NAMED = 20
"""The largest number of columns of a kind that a report lists."""


@part(
    Conversion,
    fdr="the largest expected share of false features among the selected ones",
    efp="the largest expected number of false features",
    pairs="the number of pairs of halves",
    strengths="the number of strengths of a path",
    probes="whether columns in another order of the rows are judged, too",
)
class PathStability(NamedTuple):
    """A selection by paths on random halves of the rows, with a bound on its false features.

    Parameters
    ----------
    fdr : float or None
        The largest share of false features among the selected ones, as estimated by q-values.  It has no effect where
        ``efp`` is given.
    efp : float or None
        The largest expected number of false features, in place of ``fdr``.
    pairs : int
        The number of pairs of halves.
    strengths : int
        The number of strengths of each path.
    probes : bool
        Whether a probe is judged beside each column: the column in another order of the rows, which cannot matter.
    """

    fdr: float | None = 0.1
    efp: float | None = None
    pairs: int = 50
    strengths: int = 25
    probes: bool = False

    needs_sample = True
    sample_nonzeros = KEPT_NONZEROS
    joins_runs = True
    bounds_false_features = True
    can_forget_features = False

    def check(self) -> None:
        if self.fdr is None and self.efp is None:
            raise ValueError("PathStability needs fdr= (a share, such as 0.1) or efp= (a number, such as 1).")
        if self.efp is None and not (is_number(self.fdr) and 0.0 < self.fdr < 1.0):
            raise ValueError(f"fdr={self.fdr!r}: it must be a share between 0 and 1, both excluded.")
        if self.efp is not None and not (is_number(self.efp) and self.efp > 0.0):
            raise ValueError(f"efp={self.efp!r}: it must be a number above 0.")
        for name, least, most in (("pairs", 1, MOST_PAIRS), ("strengths", 2, MOST_PAIRS)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"PathStability({name}={getattr(self, name)!r}): it must be at least {least}.")

    @property
    def target(self) -> Target:
        """Return the promise."""
        return Target(self.fdr if self.efp is None else None, self.efp)

    def watch(self, loss: Any) -> Any:
        return Nothing()

    def finish(self, run: Any) -> Answer:
        return self.finish_runs([run])[0]

    def penalty(self, answer: Answer) -> ElasticNet:
        """Return the penalty of the answer, which has none."""
        return elastic_net(0.0, 1.0, None)

    def sampled(self, runs: list[Any], rows: Any = None) -> Sampled:
        """Return the rows of the sample, or some of them, with the targets of all runs, in the units of the columns."""
        return Choose(standardize=False).sampled(runs, rows)

    def selection(self, sampled: Sampled, seed: int) -> Selection:
        """Return the selection of sampled rows; features are slots of the runs."""
        plan = Plan(self.target, self.pairs, self.strengths, self.probes, seed)
        return select(sampled.task, sampled.columns, sampled.d, plan, pool_in_use())

    def finish_runs(self, runs: list[Any]) -> list[Answer]:
        """Return the answers of all runs of a model, of which the first run has the sample."""
        sampled = self.sampled(runs)
        return self.answers(runs, sampled, self.selection(sampled, runs[0].seed))

    def answers(self, runs: list[Any], sampled: Sampled, found: Selection) -> list[Answer]:
        """Return the answers of all runs for a selection, learned again from the rows of the sample."""
        lam = float(found.paths.strengths[max(len(found.paths.measure) - 1, 0)])
        doubts = doubts_of(found, self.target)
        none = f"no feature was selected: none is stable enough for {self.target}; give more rows or a larger target."
        warnings = doubts if len(found.features) else [none, *doubts]
        columns = np.flatnonzero(np.isin(sampled.columns, found.features))
        first, *others = sampled.answers(runs, Outcome(refit(sampled.task, columns, lam), {}, [], warnings))
        report = {"promise": self._report(found) | {"warnings": doubts}}
        return [first._replace(report=report, stability=found.paths), *others]

    def _report(self, found: Selection) -> dict[str, Any]:
        """Return what was promised, from what, and what is known of it; features are slots of the run."""
        judged, paths = found.judged, found.paths
        report: dict[str, Any] = {
            **self.target._asdict(),
            "selected": len(found.features),
            "judged": paths.judged if found.probes is None else found.probes.judged,
            "followed": found.followed,
            "rows": found.rows,
            "pairs": self.pairs,
            "strengths": len(paths.measure),
            "delta": paths.delta,
            "integral": paths.integral,
            "constant": len(judged.constant),
            "constant_columns": judged.constant[:NAMED].tolist(),
            "rare": len(judged.rare),
            "identical": [[one, *others.tolist()] for one, others in sorted(judged.same.items())],
            "correlated": [[one, other, correlation] for one, other, correlation in found.correlated],
        }
        return report if found.probes is None else report | {"probes": found.probes._asdict()}
