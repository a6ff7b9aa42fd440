"""The command ``train``: a model from files."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..util.atomic_files import real
from .learning import add_learning, estimator
from .options import (
    FINE,
    INTERRUPTED,
    PAGE_FEATURES,
    TERMINATED,
    add_crosses,
    add_order,
    add_reading,
    check_writable,
    command,
    crosses,
    positive,
    reading,
    to_json,
)
from .updating import to_update

_EXAMPLE = """  sparsco train data.svm                              strength and mixture chosen from the data
  sparsco train data.svm --budget 50                  the best model with at most 50 features
  sparsco train data.svm --fdr 0.1                    features of which at most 10% are expected to be false
  sparsco train mail.txt -m mail.model --save-state   texts: a label, a tab and a text in each line
  sparsco train mail.txt --update mail.model          go on with further rows
  sparsco train data.svm --half-life 10000            old rows fade
  sparsco train data.svm.gz -m spam.model --test test.svm --alpha 1e-3 --l1-ratio 0.9
  sparsco train 'logs/part-*.vw' -m clicks.model --hash-bits 22 -q ui --checkpoint-every 10m
  sparsco train table.csv --target price --task regression --passes 3
  sparsco train table.csv --target price --loss 'Huber(0.5)' --penalty 'Box(0, 1)'
  sparsco train table.csv --target price --groups columns             a column with all its categories, or none
  sparsco train table.csv --target price --groups groups.txt          its lines: FEATURE, a tab or a space, GROUP
  sparsco train table.csv --target price --cross size:kind -m crossed.model   also products of features: crosses
  sparsco train table.csv --target count --loss poisson --offset 'log(size)' -m rates.model   rates
  sparsco train data.svm --cross all --birth          crosses of features that are selected
  zcat data.svm.gz | sparsco train - -m model
  zcat data.svm.gz | sparsco train - -m model --max-features 100000   at most 100,000 features in memory
  sparsco train 'logs/part-*.vw' -m clicks.model --dask local:4       4 processes; see docs/distributed.md
  sparsco train 'logs/part-*.vw' -m clicks.model --dask local:4 --resume
  sparsco train --follow data.svm -m live.model --idle-exit 2         a log that grows; see docs/follow.md
  sparsco train --follow clicks.svm -m clicks.model --publish-every 5m --resume
  tail -n +1 -F clicks.svm | sparsco train --follow - -m clicks.model --format libsvm

exit code:
    0  success
    2  bad argument or input
    3  a file could not be read or written
    4  training diverged
  130  interrupted (Ctrl-C)
  143  terminated (SIGTERM)
After 130 and 143 a checkpoint is kept (with --dask, that of the last round).  --resume continues from it to the same
model, bit for bit."""


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command to the parser."""
    to = command(commands, "train", "learn a sparse model from files, in constant memory", _EXAMPLE)
    to.add_argument("data", nargs="+", metavar="DATA", help="files, patterns, or - for standard input")
    to.add_argument(
        "-m", "--model", metavar="FILE", help="write the model to FILE (default: the name of DATA with .model)"
    )
    to.add_argument("--test", metavar="FILE", nargs="+", help="evaluate the model on these files at the end")
    add_learning(to)
    to.add_argument(
        "--passes",
        type=positive,
        metavar="N",
        help="passes over the data (default: 1; more with --dask and small files); later passes read a cache",
    )
    to.add_argument(
        "--intervals",
        type=_level,
        metavar="LEVEL",
        help="compute confidence intervals of the weights, such as 0.95; inspect shows them (docs/intervals.md)",
    )
    to.add_argument(
        "--split",
        action="store_true",
        help="with --intervals: select features on one half of the rows, and compute intervals on the other half",
    )
    add_order(to)
    to.add_argument("--no-cache", action="store_true", help="do not cache the rows for later passes")
    to.add_argument("--update", metavar="MODEL", help="continue training this model, which was saved with --save-state")
    to.add_argument("--save-state", action="store_true", help="save the training state in the model file, for --update")
    to.add_argument(
        "--checkpoint-every",
        type=_interval,
        metavar="N|TIME",
        help="write a checkpoint every N rows, or after a time such as 30s, 10m, 2h; 0: never (default: 60s); with "
        "--dask at the end of a round",
    )
    to.add_argument(
        "--resume",
        action="store_true",
        help="continue from the checkpoint of an interrupted run; without a checkpoint, start from the beginning",
    )
    to.add_argument("--restart", action="store_true", help="start from the beginning and ignore such a checkpoint")
    to.add_argument(
        "--dask",
        metavar="ADDRESS|local:N",
        help="train on the workers of a Dask cluster, one partition per file, or in N processes on this machine",
    )
    _add_following(to)
    add_reading(to)
    add_crosses(to)
    to.add_argument(
        "--html", metavar="FILE", help="write the model as one HTML page with plots, as inspect --html does"
    )
    to.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
    to.add_argument("--quiet", action="store_true", help="show no progress on stderr")
    to.set_defaults(run=_train)


def _add_following(to: argparse.ArgumentParser) -> None:
    """Add the options of a log that grows."""
    group = to.add_argument_group("following a log that grows (docs/follow.md)")
    group.add_argument(
        "--follow",
        action="store_true",
        help="learn DATA, one text file or -, while it grows, and write the model again and again; Ctrl-C ends this "
        "with a last model, --resume continues",
    )
    group.add_argument(
        "--publish-every",
        type=_interval,
        metavar="N|TIME",
        help="write the model every N rows, or after a time such as 30s, 10m, 2h (default: 60s, or as much longer as "
        "keeps this below 5%% of the time)",
    )
    group.add_argument(
        "--idle-exit", type=_seconds, metavar="SECONDS", help="end when no row has arrived for so many seconds"
    )


def _train(given: argparse.Namespace) -> int:
    from ..streams import open_stream
    from ..training.checkpoints import going_on_from
    from ..training.train import train
    from ..util.progress import Live

    if given.follow:
        from .follow import follow_log

        return follow_log(given)
    if given.publish_every or given.idle_exit is not None:
        raise ValueError("--publish-every and --idle-exit are for --follow: give that, too.")
    source = given.data[0] if len(given.data) == 1 else given.data
    path = Path(given.model or given.update or default_name(given.data[0]))
    for output in (path, *([Path(given.html)] if given.html else [])):
        check_writable(output, *given.data, *(given.test or ()))
    reader, names, named, settings = reading(given), None, None, dict[str, Any]()
    if given.update:
        model, reader, names, named = to_update(given, reader)
        given.save_state |= real(path) == real(given.update)  # the model can still be updated afterwards
    else:
        model, settings = estimator(given)
    if ((given.passes or 1) > 1 or given.polish) and not given.no_cache and source != "-":
        reader["cache"] = True
    if given.test:  # a wrong name raises its error now
        open_stream(
            given.test if len(given.test) > 1 else given.test[0],
            **{name: option for name, option in reader.items() if name != "cache"},
        )
    if given.split and given.intervals is None:
        raise ValueError("--split is for --intervals LEVEL: give that, too.")
    if given.dask is not None:
        _check_dask(given)
    checkpoints, is_kept = checkpoints_of(given, path)
    kept, live = checkpoints if is_kept else None, Live(not given.quiet)

    def learn(stop: Callable[[], bool]) -> Any:
        if given.dask is not None:
            return _on_dask(given, model, settings, reader, kept, stop)
        with going_on_from(given.update, "--update"):
            return train(
                source,
                model,
                passes=given.passes or 1,
                shuffle=not given.no_shuffle,
                reader=reader,
                names=names,
                classes=given.classes,
                settings=settings,
                resume=given.resume,
                live=live,
                checkpoints=kept,
                stop=stop,
                named=named,
                **crosses(given),
            )

    trained, code = _until_stopped(learn, checkpoints, live, awaits_input="-" in given.data)
    return code if trained is None else _finished(given, trained, reader, path, checkpoints.remove)


def _until_stopped(learn: Callable[..., Any], checkpoints: Any, live: Any, awaits_input: bool) -> tuple[Any, int]:
    """Return what ``learn`` returns, None after a Ctrl-C or SIGTERM, and the exit code; say what is kept."""
    from ..training.checkpoints import ResumeError
    from ..training.results import StoppedError

    with stopping(awaits_input) as asked:
        try:
            return learn(lambda: bool(asked)), FINE
        except StoppedError as stopped:
            live.close()
            rest = f"{checkpoints.path} is kept, --resume continues" if checkpoints.exist() else "nothing was kept"
            print(f"sparsco: {stopped}; {rest}.", file=sys.stderr)
            return None, INTERRUPTED if asked[0] == signal.SIGINT else TERMINATED
        except Exception as error:
            live.close()
            if checkpoints.exist() and not isinstance(error, ResumeError):
                print(
                    f"sparsco: the last checkpoint, {checkpoints.path}, is kept: --resume continues.", file=sys.stderr
                )
            raise


def checkpoints_of(given: argparse.Namespace, path: Path) -> tuple[Any, bool]:
    """Return the checkpoints of a model's run, and whether new ones are written."""
    from ..training.checkpoints import Checkpoints

    rows, seconds = given.checkpoint_every or (None, 60.0)
    if given.resume and not (rows or seconds):
        raise ValueError("--resume needs checkpoints, and --checkpoint-every 0 writes none: leave one of them out.")
    checkpoints = Checkpoints(path.with_name(path.name + ".checkpoint"), rows, seconds)
    if checkpoints.exist() and not (given.resume or given.restart):
        raise ValueError(
            f"{checkpoints.path} belongs to an interrupted run: --resume continues it, --restart starts "
            "from the beginning."
        )
    return checkpoints, bool(rows or seconds)


def _check_dask(given: argparse.Namespace) -> None:
    """Raise a ValueError for options that are not supported with ``--dask``."""
    with_it = ("update", "save_state", "polish", "no_shuffle", "no_cache", "intervals", "cross")
    not_there = [f"--{name.replace('_', '-')}" for name in with_it if getattr(given, name)]
    not_there += ["--classes any"] if isinstance(given.classes, str) else []
    if not_there:
        raise ValueError(
            f"--dask does not support {', '.join(not_there)}: it learns a new model in rounds, from files in their "
            "order."
        )


def _on_dask(
    given: argparse.Namespace,
    model: Any,
    settings: dict[str, Any],
    reader: dict[str, Any],
    checkpoints: Any,
    stop: Callable[[], bool],
) -> Any:
    """Return the model that Dask workers learn, with each file as a partition."""
    from ..distributed.fitting import train
    from ..training.results import Trained

    reader.pop("cache", None)

    def say(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"sparsco: {message}", file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = say
            found = train(
                model,
                given.data,
                given.dask,
                reader=reader,
                classes=given.classes,
                passes=given.passes,
                settings=settings,
                progress=False if given.quiet else None,
                checkpoints=checkpoints,
                resume=given.resume,
                name_hashed=True,
                stop=stop,
            )
    except ImportError as error:
        raise ValueError(str(error)) from error
    rounds = found.model.report_["distributed"]["rounds"]
    travelled = sum(each["up"] + each["down"] for each in rounds)
    sizes = f"partitions: {len(found.partitions)}, rounds: {len(rounds)}, travelled: {travelled / 1e6:,.1f} MB"
    _, stream = next(found.partitions[0].streams())
    stream.recall(found.names)
    return Trained(found.model, stream, [], found.rows, found.seconds, [*found.notes, sizes])


def _finished(
    given: argparse.Namespace, trained: Any, reader: dict[str, Any], path: Path, written: Callable[[], None]
) -> int:
    """Write the model, evaluate it on the test rows if there are any, and print the result.

    ``written`` is called when the model is written.
    """
    from ..training import inspection, model_files, scoring
    from ..training.inspection import as_text, summary
    from ..training.labelled_rows import by_name, describe, reader_of

    warning = _add_intervals(given, trained.model)
    describe(trained.model, trained.stream)
    outcome = summary(trained)
    if (figures := scoring.held_out(trained.model)) is not None:
        outcome["held_out"] = figures
    outcome["warnings"] += warning
    extra: dict[str, Any] = {"reader": reader_of(trained.stream, reader), "training": outcome}
    if given.save_state:
        extra["names"] = dict(trained.stream.names)

    def save() -> None:
        model_files.save(
            trained.model,
            path,
            training=given.save_state,
            names=trained.stream.names,
            by_name=by_name(trained.stream),
            extra=extra,
        )

    save()
    written()
    if given.test:
        try:
            outcome["test"] = scoring.evaluate(*scoring.opened_for(model_files.read(path), given.test))
        except Exception:
            print(f"sparsco: {path} is written: only the test failed.", file=sys.stderr)
            raise
        save()
    outcome["model"] = str(path)
    if given.html:
        print(f"page: {inspection.write_page(given.html, model_files.read(path), PAGE_FEATURES)}", file=sys.stderr)
    print(to_json(outcome) if given.json else as_text(outcome))
    return FINE


def _add_intervals(given: argparse.Namespace, model: Any) -> list[str]:
    """Compute the intervals that were asked for; return a warning if the model cannot have them."""
    if given.intervals is None:
        return []
    try:
        model.intervals(given.intervals, split=given.split)
    except ValueError as error:  # the model is worth more than its intervals
        print(f"sparsco: the model has no intervals: {error}", file=sys.stderr)
        return [f"the model has no intervals: {error}"]
    return []


@contextmanager
def stopping(awaits_input: bool = False) -> Iterator[list[int]]:
    """Yield a list that receives the first Ctrl-C or SIGTERM, so that work can end with a whole state.

    A second Ctrl-C ends the process at once.  With ``awaits_input`` the signal also ends standard input, which may be
    silent for long.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: Any) -> None:
        asked.append(number)
        if awaits_input:  # a read that waits restarts when this returns, and finds the end
            os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
        if len(asked) > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt("interrupted at once")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def default_name(data: str) -> str:
    """Return the name of the first file without its suffixes; "sparsco" if there is none."""
    stem = Path(data).name.partition(".")[0]
    return (stem if stem and stem.replace("-", "").isidentifier() else "sparsco") + ".model"


def _level(text: str) -> float:
    """Return the level of intervals, for argparse."""
    try:
        level = float(text)
    except ValueError:
        level = 0.0
    if not 0.0 < level < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1, such as 0.95")
    return level


def _seconds(text: str) -> float:
    """Return a number of seconds, for argparse."""
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _interval(text: str) -> tuple[int | None, float | None]:
    """Return rows or seconds, for argparse."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    try:
        if text[-1:] in units:
            seconds = float(text[:-1]) * units[text[-1]]
            if 0.0 < seconds < float("inf"):
                return None, seconds
        elif int(text) >= 0:
            return int(text) or None, None
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is neither a number of rows nor a time such as 30s, 10m or 2h")
