"""Progress on stderr, or below the cell of a notebook: passes over rows, shares of the work, steps of a computation."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np


def notebook_display() -> Callable[..., Any] | None:
    """Return the function that shows something below the cell of a notebook; None outside of notebooks."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    return python.display.display if shell is not None and "IPKernelApp" in shell.config else None  # type: ignore[union-attr]


class _Line:
    """A line that is overwritten at a terminal and in a notebook; elsewhere lines go to stderr, one below the other."""

    def __init__(self) -> None:
        self.display = notebook_display()
        self.rewrites = self.display is not None or bool(getattr(sys.stderr, "isatty", bool)())
        self.open = False
        self.cell: Any = None
        """The place of the line below the cell of a notebook, once it has been shown."""

    def say(self, text: str) -> None:
        """Write a text in place of the line."""
        if self.display is not None:
            self._show(self.display, {"text/plain": text})
        elif self.rewrites:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
            self.open = True
        else:
            print(text, file=sys.stderr, flush=True)

    def _show(self, display: Callable[..., Any], content: dict[str, str]) -> None:
        if self.cell is None:
            self.cell = display(content, raw=True, display_id=True)
        else:
            self.cell.update(content, raw=True)

    def close(self) -> None:
        """End the line."""
        if self.open:
            print(file=sys.stderr)


class Progress(_Line):
    """The rows per second on stderr: if ``verbose``, or at a terminal once a fit has lasted two seconds."""

    def __init__(self, name: str, rows: int, passes: int, verbose: int) -> None:
        super().__init__()
        self.name, self.rows, self.passes, self.verbose = name, rows, passes, verbose
        self.began = self.shown = time.monotonic()

    def show(self, epoch: int, row: int) -> None:
        """Write the position of the fit, once a second and at the end of each pass."""
        now = time.monotonic()
        wanted = self.verbose > 0 or (self.rewrites and now - self.began > 2.0)
        if not wanted or (now - self.shown < 1.0 and not (self.verbose and row == self.rows)):
            return
        done = (epoch - 1) * self.rows + row
        speed = done / max(now - self.began, 1e-9)
        self.say(f"[{self.name}] pass {epoch}/{self.passes}, row {row}/{self.rows}, {speed:,.0f} rows/s")
        self.shown = now


class AskedToStopError(Exception):
    """An error for a computation that is ended at a step, because its caller was asked to stop."""


class Steps(_Line):
    """The steps of a computation on stderr: if ``verbose``, or at a terminal once it has lasted two seconds.

    With ``verbose=None`` nothing is shown.  If ``stop`` returns True, a step raises an AskedToStopError.
    """

    def __init__(self, name: str, verbose: int | None, stop: Callable[[], bool] = bool) -> None:
        super().__init__()
        self.name, self.verbose, self.stop = name, verbose, stop
        self.began = self.shown = time.monotonic()

    def show(self, text: str) -> None:
        """Write what is being done, once a second."""
        now = time.monotonic()
        wanted = self.verbose is not None and (self.verbose > 0 or (self.rewrites and now - self.began > 2.0))
        if not wanted or now - self.shown < 1.0:
            return
        self.say(f"[{self.name}] {text}, {duration(now - self.began)}")
        self.shown = now


_steps: ContextVar[Steps | None] = ContextVar("steps", default=None)


@contextmanager
def steps_shown(name: str, verbose: int | None, stop: Callable[[], bool] = bool) -> Iterator[None]:
    """Show the steps that are reported in the block by :func:`step`, unless a block around it shows them.

    If ``stop`` returns True, the next step raises an AskedToStopError.
    """
    if _steps.get() is not None:
        yield
        return
    steps = Steps(name, verbose, stop)
    token = _steps.set(steps)
    try:
        yield
    finally:
        _steps.reset(token)
        steps.close()


def step(text: str) -> None:
    """Report what is done next; it is shown if a caller shows steps, and if they take long."""
    steps = _steps.get()
    if steps is not None:
        if steps.stop():
            raise AskedToStopError
        steps.show(text)


class Bar(_Line):
    """The work done and the time left on stderr: a bar that is redrawn at a terminal, elsewhere a line now and then."""

    WIDTH = 30

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.began = name, time.monotonic()
        self.shown = -1.0

    def show(self, done: float, total: float | None) -> None:
        """Draw the share of the work done, in any unit; without a total nothing is drawn."""
        if not total:
            return
        now, share = time.monotonic(), done / total
        if share < 1.0 and now - self.shown < (0.2 if self.rewrites else 10.0):
            return
        self.shown = now
        left = (now - self.began) * (1.0 - share) / share if share else float("nan")
        filled = int(self.WIDTH * share)
        self.say(f"{self.name} [{'=' * filled}{' ' * (self.WIDTH - filled)}] {share:4.0%}, {duration(left)} left")

    def show_late(self, seconds: float) -> Callable[[float, float | None], None]:
        """Return a ``show`` that draws nothing in the first seconds, for work that is usually short."""
        return lambda done, total: self.show(done, total) if time.monotonic() - self.began > seconds else None


def printable(name: str) -> str:
    """Return a name that cannot move the cursor of a terminal or break a line.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(5.2), duration(93), duration(7300)
    ('5 s', '1 min 33 s', '2 h 1 min')
    """
    if seconds != seconds:
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def percent(share: float, digits: int = 2) -> str:
    """Return a share as a percentage, rounded to significant digits, never as a power of ten.

    >>> percent(0.0123), percent(1.0), percent(0.996), percent(1e-7, 3)
    ('1.2%', '100%', '100%', '0.00001%')
    """
    return np.format_float_positional(float(f"{100.0 * share:.{digits}g}"), trim="-") + "%"


class Live(_Line):
    """The display of a training run: nothing by default; with ``shown`` a live line and a table on stderr."""

    def __init__(self, shown: bool = False) -> None:
        super().__init__()
        self.shown, self.began, self.last, self.headed = shown, time.monotonic(), 0.0, False
        self.nonzeros = ""

    def show(self, read: int, total: int | None, rows: int, epoch: int, passes: int) -> None:
        """Write the rows per second and the time left, twice a second, at a terminal only."""
        now = time.monotonic()
        if not (self.shown and self.rewrites) or now - self.last < 0.5 or now - self.began < 1.0:
            return
        self.last, spent = now, now - self.began
        share = (epoch + read / total) / passes if total else 0.0
        left = f", {duration(spent * (1.0 - share) / share)} left" if share else ""
        self.say(f"{rows:>12,} rows, {rows / spent:,.0f} rows/s{self.nonzeros}{left}")

    def line(self, line: Sequence[float], loss: str, mistakes: str) -> None:
        """Write a line of the table of progressive validation, whose losses and mistakes have these heads."""
        if not self.shown:
            return
        if self.open:
            print("\r\x1b[K", end="", file=sys.stderr)
            self.open = False
        if not self.headed:
            heads = " ".join(f"{head:>9}" for head in (loss, "mean", mistakes, "mean", "nonzeros"))
            print(f"{'rows':>12} {heads}", file=sys.stderr)
            self.headed = True
        rows, *numbers, nonzeros = line
        self.nonzeros = f", {nonzeros:,} nonzeros at {rows:,}"
        print(f"{rows:>12,} " + " ".join(f"{x:>9.5f}" for x in numbers) + f" {nonzeros:>9,}", file=sys.stderr)
