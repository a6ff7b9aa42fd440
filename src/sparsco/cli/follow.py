"""``train --follow``: a log that grows, to a model that is published again and again."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from ..util.atomic_files import LockedError, real
from .learning import estimator
from .options import FINE, INTERRUPTED, TERMINATED, check_writable, crosses, reading, to_json
from .train import checkpoints_of, default_name, stopping
from .updating import to_update

_REFUSED = {
    "html": "inspect --html writes the page of a published model",
    "passes": "rows are learned once, as they arrive",
    "polish": "it needs all rows",
    "dask": "one process follows a log",
    "groups": "they need all features in advance",
    "intervals": "they would be computed for every model",
    "no_cache": "nothing is cached",
}
"""The options of ``train`` that cannot be combined with ``--follow``, and why."""


def follow_log(given: argparse.Namespace) -> int:
    """Run ``train --follow`` and return its exit code."""
    from ..streams import open_stream
    from ..training.checkpoints import ResumeError
    from ..training.follow import follow
    from ..training.results import Report, StoppedError

    _check(given)
    path = Path(given.model or default_name(given.data[0]))
    check_writable(path, *given.data, *(given.test or ()))
    reader, names, named, settings = reading(given), None, None, dict[str, Any]()
    if given.update:
        model, reader, names, named = to_update(given, reader)
    else:
        model, settings = estimator(given)
    if given.test:  # a wrong name raises its error now
        open_stream(given.test if len(given.test) > 1 else given.test[0], **reader)
    checkpoints, _ = checkpoints_of(given, path)
    rows, seconds = given.publish_every or (None, None)

    def show(report: Report) -> None:
        if given.json:
            print(to_json(report._asdict()), flush=True)
        elif not given.quiet:
            print(report, file=sys.stderr, flush=True)

    with stopping() as asked:
        try:
            trained = follow(
                given.data[0],
                path,
                model,
                publish_rows=rows,
                publish_seconds=seconds,
                idle_exit=given.idle_exit,
                reader=reader,
                classes=given.classes,
                settings=settings,
                names=names,
                named=named,
                checkpoints=checkpoints,
                resume=given.resume,
                save_state=given.save_state,
                stop=lambda: bool(asked),
                report=show,
                **crosses(given),
            )
        except StoppedError as stopped:
            print(f"sparsco: {stopped}.", file=sys.stderr)
            return _code(asked)
        except Exception as error:
            if checkpoints.exist() and not isinstance(error, ResumeError | LockedError):
                print(
                    f"sparsco: the last checkpoint, {checkpoints.path}, is kept: --resume continues.", file=sys.stderr
                )
            raise
    _show_end(given, trained, path, checkpoints)
    return _code(asked)


def _code(asked: list[int]) -> int:
    return FINE if not asked else INTERRUPTED if asked[0] == signal.SIGINT else TERMINATED


def _check(given: argparse.Namespace) -> None:
    """Raise a ValueError for options that make no sense while a log grows."""
    if len(given.data) > 1:
        raise ValueError(f"--follow takes one file, or -, not {len(given.data)}: pipe several in (tail -q -F).")
    for name, why in _REFUSED.items():
        if getattr(given, name) not in (None, False):
            raise ValueError(f"--{name.replace('_', '-')} cannot be combined with --follow: {why}; leave it out.")
    if given.update and (not given.model or real(given.model) == real(given.update)):
        raise ValueError("--follow writes its model again and again: name another file than that of --update (-m).")
    if given.publish_every == (None, None):
        raise ValueError("--publish-every 0 would publish nothing: give rows or a time.")


def _show_end(given: argparse.Namespace, trained: Any, path: Path, checkpoints: Any) -> None:
    """Print the outcome, with the figures on the test rows if there are any, and how the run is resumed."""
    from ..training import model_files, scoring
    from ..training.inspection import as_text, summary

    outcome = summary(trained)
    if given.test:
        outcome["test"] = scoring.evaluate(*scoring.opened_for(model_files.read(path), given.test))
    outcome["model"] = str(path)
    print(to_json(outcome) if given.json else as_text(outcome))
    if checkpoints.exist():
        again = sys.argv[1:] if sys.argv[1:2] == ["train"] else ["train", "--follow", given.data[0], "-m", str(path)]
        again = [each for each in again if each not in ("--resume", "--restart")] + ["--resume"]
        print(
            f"sparsco: stopped behind row {trained.rows:,}; to go on there: sparsco {shlex.join(again)}",
            file=sys.stderr,
        )
