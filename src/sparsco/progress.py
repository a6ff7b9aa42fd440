"""Where a fit is."""

from __future__ import annotations

import sys
import time


class Progress:
    """Rows per second on stderr: when ``verbose``, or at a terminal once a fit has lasted two seconds."""

    def __init__(self, name: str, rows: int, passes: int, verbose: int) -> None:
        self.name, self.rows, self.passes, self.verbose = name, rows, passes, verbose
        self.began = self.shown = time.monotonic()
        self.rewrites = bool(getattr(sys.stderr, "isatty", bool)())
        self.open = False

    def show(self, epoch: int, row: int) -> None:
        """Say where the fit is, once a second and at the end of each pass."""
        now = time.monotonic()
        wanted = self.verbose > 0 or (self.rewrites and now - self.began > 2.0)
        if not wanted or (now - self.shown < 1.0 and not (self.verbose and row == self.rows)):
            return
        done = (epoch - 1) * self.rows + row
        speed = done / max(now - self.began, 1e-9)
        text = f"[{self.name}] pass {epoch}/{self.passes}, row {row}/{self.rows}, {speed:,.0f} rows/s"
        print(("\r" if self.rewrites else "") + text, end="" if self.rewrites else "\n", file=sys.stderr, flush=True)
        self.shown, self.open = now, self.rewrites

    def close(self) -> None:
        """End the line."""
        if self.open:
            print(file=sys.stderr)
