"""Draw the pictures of the pages on the papers, from our own code and from data that are generated or shipped.

    python docs/pictures.py [FOLDER] [NAME ...]

The build of the site draws them into docs/_static/papers (docs/conf.py), so no picture is older than the code.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import sparsco
from sparsco import SparseClassifier, SparseRegressor, StableSparseClassifier, metrics, presets
from sparsco.datasets import generators, tomography
from sparsco.plots.risk import risks
from sparsco.selection.stable import Stabilized

FOLDER = Path(__file__).parent / "_static" / "papers"
WIDTH = 5.2
"""The width of all pictures in inches: at 12 points, text is legible on a phone."""
STYLE = {
    "font.size": 12.0,
    "axes.titlesize": 12.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 11.0,
    "lines.linewidth": 2.0,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.facecolor": "white",
    "svg.hashsalt": "sparsco",
}
ONE_PASS: dict[str, Any] = {"max_iter": 1, "shuffle": False, "random_state": 0}
BLUE, ORANGE, GREEN, PINK, BLACK, GREY = "#0072b2", "#d55e00", "#00795c", "#b0578d", "#1f2937", "#6b7280"
PICTURES: dict[str, Callable[[], Figure]] = {}


def picture(draw: Callable[[], Figure]) -> Callable[[], Figure]:
    """Enter a function into the list of pictures, under its name."""
    PICTURES[draw.__name__.replace("_", "-")] = draw
    return draw


def draw_all(folder: Path = FOLDER, names: Sequence[str] = ()) -> None:
    """Draw the named pictures, by default all of them, as SVG files."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some methods are shown because they give dense models
        for name in names or PICTURES:
            PICTURES[name]().savefig(folder / f"{name}.svg", metadata={"Date": None})


# The regression of the papers: 100 features, of which the first half matter alike.

D, LAM, RHO = 100, 0.1, 0.1
TRUTH = np.repeat([1.0, 0.0], D // 2)


def regression(n: int, variance: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n examples of the papers' synthetic regression."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, D))
    return X, X @ TRUTH + np.sqrt(variance) * rng.standard_normal(n)


def excess(w: np.ndarray) -> float:
    """Return the expected objective above its optimum, which is 7/13 of the true weights."""

    def objective(v: np.ndarray) -> float:
        return float(np.square(v - TRUTH).sum() / 6 + RHO / 2 * np.square(v).sum() + LAM * np.abs(v).sum())

    return objective(w) - objective(7 / 13 * TRUTH)


def learned(preset: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the weights that one pass of a preset gives, in the order of the rows."""
    model = SparseRegressor(alpha=LAM + RHO, l1_ratio=LAM / (LAM + RHO), fit_intercept=False, preset=preset, **ONE_PASS)
    return np.asarray(model.fit(X, y).coef_)


def published(T: int, alpha: float) -> dict[str, Any]:
    """Return the methods of the two papers on composite optimization, with their constants, for T examples."""
    shared = {"paper": True, "sweep": True}
    return {
        "α-SGD": presets.AlphaSGD(alpha, T, **shared),
        "FOBOS": presets.FOBOS(paper=True),
        "ORDA": presets.ORDA(paper=True),
        "LastSL": presets.LastSL(alpha, T, 5.0, **shared),
        "OptimalSL": presets.OptimalSL(alpha, T, 5.0, **shared),
        "AverageSL": presets.AverageSL(alpha, T, 5.0, **shared),
    }


LINES = {
    "α-SGD": {"color": GREY, "linestyle": ":"},
    "FOBOS": {"color": PINK, "linestyle": "--"},
    "ORDA": {"color": BLACK, "linestyle": "-."},
    "LastSL": {"color": GREEN, "marker": "s"},
    "OptimalSL": {"color": BLUE, "marker": "o"},
    "AverageSL": {"color": ORANGE, "marker": "^"},
}


def stems(axes: Any, w: np.ndarray, wrong: np.ndarray) -> None:
    """Draw weights as bars, those of features that do not matter in another colour, and no mark for exact zeros."""
    for which, color in ((~wrong, BLUE), (wrong, ORANGE)):
        at = np.flatnonzero(which & (w != 0))
        axes.vlines(at, 0, w[at], color=color, linewidth=2.0)
        axes.plot(at, w[at], "o", color=color, markersize=2.5)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlim=(-1, len(w)))


@picture
def idea() -> Figure:
    """From the stream to the sparse model, in four steps."""
    rng = np.random.default_rng(1)
    d, n, points = 30, 4000, 80
    truth = np.zeros(d)
    truth[:6] = [1.5, -1.2, 1.0, -0.8, 0.7, -0.6]
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    y = X @ truth + rng.standard_normal(n)
    steps: dict[str, Any] = {"alpha": 0.03, "fit_intercept": False, "optimizer": "fobos", **ONE_PASS}
    model = SparseRegressor(**steps, conversion="last")
    track = np.array([model.partial_fit(part, z).coef_ for part, z in parts(X, y, points)])
    average = SparseRegressor(**steps, conversion="suffix").fit(X, y).coef_
    sparse = SparseRegressor(**steps, conversion="average-sl").fit(X, y).coef_

    figure = Figure(figsize=(WIDTH, 6.6))
    grid = figure.subplots(4, 1)
    grid[0].imshow(X[:8] != 0, cmap="Greys", aspect="auto", vmax=1.6)
    grid[0].set(title="1. A stream: one example after the other", xticks=[], yticks=[], xlabel="features")
    grid[1].plot(np.linspace(0, n, points), track, linewidth=0.9, color=GREY)
    grid[1].plot(np.linspace(0, n, points), track[:, :6], linewidth=1.2, color=BLUE)
    grid[1].set(title="2. An optimizer: a small step per example", xlabel="examples", ylabel="weights")
    stems(grid[2], average, truth == 0)
    grid[2].set(title=f"3. Their average: {np.count_nonzero(average)} of {d} features have a weight", xticks=[])
    stems(grid[3], sparse, truth == 0)
    grid[3].set(title=f"4. A conversion: {np.count_nonzero(sparse)} have a weight", xlabel="features", xticks=[])
    return figure


def parts(X: np.ndarray, y: np.ndarray, count: int) -> Any:
    """Return the rows and targets in a number of equal parts."""
    return zip(np.array_split(X, count), np.array_split(y, count), strict=True)


@picture
def aaai_weights() -> Figure:
    """The weights that four methods give to 100 features, after 50,000 examples."""
    X, y = regression(50_000, 25.0, seed=0)
    methods = published(len(y), alpha=0.1)
    figure = Figure(figsize=(WIDTH, 6.4))
    grid = figure.subplots(4, 1, sharex=True, sharey=True)
    words = {"α-SGD": "an average", "FOBOS": "the last iterate"}
    for axes, name in zip(grid, ("α-SGD", "FOBOS", "LastSL", "OptimalSL"), strict=True):
        w = learned(methods[name], X, y)
        stems(axes, w, TRUTH == 0)
        what = f" ({words[name]})" if name in words else ""
        axes.set(title=f"{name}{what}: {np.count_nonzero(w)} weights, 50 are true")
    grid[-1].set(xlabel="features; only the first 50 matter")
    return figure


def curves(names: Sequence[str], lengths: Sequence[int], variance: float, alpha: float, trials: int = 3) -> Figure:
    """Draw objective and number of features over the examples, means over trials."""
    found = {name: np.zeros((len(lengths), 2)) for name in names}
    for seed in range(trials):
        X, y = regression(lengths[-1], variance, seed)
        for k, n in enumerate(lengths):
            methods = published(n, alpha)
            for name in names:
                w = learned(methods[name], X[:n], y[:n])
                found[name][k] += np.array([excess(w), np.count_nonzero(w)]) / trials
    figure = Figure(figsize=(WIDTH, 6.2))
    above, below = figure.subplots(2, 1, sharex=True)
    for name in names:
        above.plot(lengths, found[name][:, 0], label=name, markersize=5, **LINES[name])
        below.plot(lengths, found[name][:, 1], markersize=5, **LINES[name])
    below.axhline(D // 2, color=GREY, linewidth=0.8)
    above.set(title="Objective above the optimum", xscale="log", yscale="log")
    below.set(title="Features with a weight (50 are true)", xlabel="examples", ylim=(40, 104))
    below.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
    below.minorticks_off()
    figure.legend(loc="outside lower center", ncols=3)
    return figure


@picture
def aaai_curves() -> Figure:
    """How the methods of the first paper converge, and how sparse they are."""
    names = ("α-SGD", "FOBOS", "ORDA", "LastSL", "OptimalSL")
    return curves(names, (2000, 5000, 10_000, 20_000, 50_000), variance=25.0, alpha=0.1)


@picture
def tpami_curves() -> Figure:
    """How the three sparse conversions converge, and how sparse they are, with much noise."""
    names = ("α-SGD", "LastSL", "OptimalSL", "AverageSL")
    return curves(names, (2000, 5000, 20_000, 50_000, 200_000), variance=100.0, alpha=0.3)


@picture
def tpami_pixels() -> Figure:
    """The pixels by which eight methods tell a 2 from a 3."""
    X, digit = load_digits(return_X_y=True)
    chosen = (digit == 2) | (digit == 3)
    X, y = X[chosen] / 16.0, digit[chosen] == 3
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(len(y)) for _ in range(40)])
    X, y = X[order], y[order]
    shared = {"paper": True, "t0": 0.0, "sign_at_zero": 1.0}
    sl: dict[str, Any] = {"alpha": 0.3, "T": len(y), "L": 10.0, **shared}
    methods = {
        "α-SGD": presets.AlphaSGD(0.3, len(y), **shared),
        "FOBOS": presets.FOBOS(paper=True, t0=0.0),
        "ORDA": presets.ORDA(paper=True),
        "LastSL": presets.LastSL(**sl, last_factor=2.0),
        "OptimalSL": presets.OptimalSL(**sl),
        "AverageSL": presets.AverageSL(**sl),
        "AverageSL, ours": presets.AverageSL(),
        "the optimum": None,
    }
    figure = Figure(figsize=(WIDTH, 6.6))
    for axes, (name, preset) in zip(figure.subplots(3, 3).flat, methods.items(), strict=False):
        model = SparseClassifier(alpha=0.03, l1_ratio=2 / 3, **ONE_PASS)
        model.set_params(**({"polish": True} if preset is None else {"preset": preset}))
        w = model.fit(X, y).coef_.reshape(8, 8)
        shade = np.sign(w) * (0.2 + 0.8 * np.abs(w) / np.abs(w).max())  # the smallest weight is seen, too
        axes.imshow(np.where(w == 0, np.nan, shade), cmap="RdBu_r", vmin=-1.2, vmax=1.2)
        axes.set_title(f"{name}\n{np.count_nonzero(w)} pixels", fontsize=11)
    for axes in figure.axes:
        axes.set(xticks=[], yticks=[])
        axes.spines[["top", "right"]].set_visible(True)
    figure.axes[-1].axis("off")
    figure.axes[-1].text(0.0, 0.5, "red: speaks for 3\nblue: for 2\nwhite: no weight", va="center", fontsize=11)
    return figure


def scan(step: float, rounds: float, names: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return an image of 32 x 32 pixels, and what choices of iterates make of rays through it with 5% of noise."""
    truth, A = tomography.shepp_logan(32), tomography.fan_beam(32)
    y = tomography.noisy(A @ truth.ravel(), level=0.05, seed=0)
    start = np.random.default_rng(0).random(truth.size)
    rows = int(rounds * len(y))
    images = {}
    for name in names:
        conversion = presets.STRATEGIES[name](rows)
        solution = sparsco.kaczmarz(A, y, 1.0, conversion=conversion, step=step, iterations=rows, start=start)
        images[name] = solution.w.reshape(truth.shape)
    return truth, images


CHOICES = {"uniform": "average", "weighted": "weighted average", "suffix": "last half", "ocmdi": "OCMDI"}


@picture
def individual_images() -> Figure:
    """The image that four choices of iterates give after five rounds over the rays."""
    truth, images = scan(0.5, 5.0, ("uniform", "weighted", "suffix", "random", "ocmdi"))
    figure = Figure(figsize=(WIDTH, 4.5))
    shown = {"true image": truth, **{{"random": "random iterate", **CHOICES}[name]: w for name, w in images.items()}}
    for axes, (name, image) in zip(figure.subplots(2, 3).flat, shown.items(), strict=True):
        axes.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        axes.set_title(f"{name}\n{np.count_nonzero(np.abs(image) > 1e-7):,} pixels", fontsize=11)
        axes.set(xticks=[], yticks=[])
    return figure


@picture
def individual_errors() -> Figure:
    """How the error falls with the rounds, with the step of the figure and with three times that step."""
    rounds = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0)
    figure = Figure(figsize=(WIDTH, 5.8))
    grid = figure.subplots(2, 1, sharex=True)
    looks = ((GREY, ":"), (PINK, "--"), (BLUE, "-."), (ORANGE, "-"))
    for axes, (step, title) in zip(grid, ((0.5, "Step as in the figure"), (1.5, "Three times that step")), strict=True):
        errors = []
        for each in rounds:
            truth, images = scan(step, each, tuple(CHOICES))
            errors.append([np.linalg.norm(image - truth) / np.linalg.norm(truth) for image in images.values()])
        for name, values, (color, style) in zip(CHOICES.values(), np.array(errors).T, looks, strict=True):
            axes.plot(rounds, values, color=color, linestyle=style, label=name if axes is grid[0] else None)
        axes.set(title=f"{title}: error of the image", ylim=(0, None))
    grid[1].set(xlabel="rounds over the rays")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@picture
def two_stage_errors() -> Figure:
    """The error on new rows against the number of features, for five ways to have few."""
    rng = np.random.default_rng(0)
    X = generators.zipf_rows(12_000, 1000, 40, rng)
    truth = np.zeros(1000)
    truth[rng.permutation(1000)[:300]] = rng.standard_normal(300)
    y = X @ truth
    y += 0.5 * y.std() * rng.standard_normal(len(y))
    found = risks(X[:10_000], y[:10_000], X[10_000:], y[10_000:], sizes=(20, 50, 100, 200, 500, 1000, 2000, 5000))
    looks = {
        "budget": ("the largest, fitted again (budget)", {"color": ORANGE, "marker": "^"}),
        "top-k": ("the largest", {"color": BLUE, "marker": "o"}),
        "DD": ("random, by weight and size (DD)", {"color": GREEN, "linestyle": "--"}),
        "MG": ("random, by weight (MG)", {"color": PINK, "linestyle": "-."}),
        "small ball": ("one stage in a small ball", {"color": GREY, "linestyle": ":", "marker": "s"}),
    }
    figure = Figure(figsize=(WIDTH, 5.4))
    axes = figure.subplots()
    for name, (label, look) in looks.items():
        features, errors = np.array(sorted(found[name])).T
        axes.plot(features, errors / y.std(), label=label, markersize=5, **look)
    full = found["full model"][0][1] / y.std()
    axes.axhline(full, color=BLACK, linewidth=0.8)
    axes.text(20, 0.98 * full, "stage one, all 1,000", va="top")
    axes.set(xscale="log", yscale="log", xlabel="features with a weight", ylim=(0.4, 3.5))
    axes.set(title="Error on new rows (1: a constant)")
    axes.set_xticks([20, 100, 500], ["20", "100", "500"])
    axes.set_yticks([0.5, 1, 2], ["0.5", "1", "2"])
    axes.minorticks_off()
    figure.legend(loc="outside lower center")
    return figure


@picture
def stable_selections() -> Figure:
    """Which features three methods select in ten orders of the same rows."""
    X, y = generators.text_like(2000, 1000, 30, relevant=30, scale=12.0, rng=np.random.default_rng(0))
    methods: dict[str, Callable[[], Any]] = {
        "truncated gradient": lambda: SparseClassifier(
            alpha=0.003, preset=presets.TruncatedGradient(5), shuffle=False, max_iter=5
        ),
        "stabilized": lambda: StableSparseClassifier(method=Stabilized(pi0=0.3), random_state=0),
        "STS": lambda: StableSparseClassifier(n_features=240, random_state=0),
    }
    figure = Figure(figsize=(WIDTH, 5.4))
    for axes, (name, make) in zip(figure.subplots(3, 1), methods.items(), strict=True):
        chosen = []
        for seed in range(10):
            order = np.random.default_rng(seed).permutation(len(y))
            chosen.append(np.ravel(make().fit(X[order], y[order]).coef_) != 0)
        selected = np.array(chosen)
        kappa = np.mean([metrics.cohen_kappa(a, b) for k, a in enumerate(chosen) for b in chosen[:k]])
        used = np.flatnonzero(selected.any(0))
        ranked = used[np.argsort(-selected[:, used].sum(0), kind="stable")]
        axes.imshow(selected[:, ranked], cmap="Blues", aspect="auto", vmax=1.3, interpolation="none")
        size = selected.sum(1).mean()
        axes.set(title=f"{name}: {size:.0f} features, kappa {kappa:.2f}", yticks=[], ylabel="orders")
    figure.axes[-1].set(xlabel="features, most often selected first")
    return figure


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER, sys.argv[2:])
