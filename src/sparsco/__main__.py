"""``python -m sparsco``: the command line."""

from .cli import run

raise SystemExit(run())
