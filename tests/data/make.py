"""Write the files that tests/training/test_kept_files.py reads: a model, a checkpoint and a row cache of this version.

    python tests/data/make.py

Later versions have to read them, so they are written anew only when a format changes on purpose.  The rows are whole
numbers that a formula gives, so that no random generator and no CPU has a say in them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROWS, COLUMNS, PASSES = 60, 6, 3
SETTINGS = {"alpha": 0.01, "optimizer": "nftrl", "conversion": "last", "random_state": 0}
LIMIT = 100
"""Rows after which the checkpoint is written: behind the second of three passes."""


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of small whole numbers and labels that three columns decide."""
    i, j = np.arange(ROWS)[:, None], np.arange(COLUMNS)
    X = (i * i * (j + 2) + 5 * i + 3 * j) % 11 - 5
    X = np.where((i + j) % 3 == 0, 0, X).astype(np.float64)
    return X, np.where(X[:, 0] - X[:, 2] + 2 * X[:, 4] > 0, 1, -1)


def write_text(path: Path) -> Path:
    """Write the rows in the libsvm format."""
    X, y = rows()
    with open(path, "w") as file:
        for row, label in zip(X, y, strict=True):
            print(label, *(f"{column}:{x:g}" for column, x in enumerate(row) if x), file=file)
    return path


def train_until(source: Path, checkpoint: Path | None, limit: int | None = None, resume: bool = False) -> object:
    """Train the model of the checkpoint, to the end or until a checkpoint is due after ``limit`` rows."""
    from sparsco.estimators.tasks import LinearClassifier
    from sparsco.training.checkpoints import Checkpoints
    from sparsco.training.results import StoppedError
    from sparsco.training.train import train

    checkpoints = None if checkpoint is None else Checkpoints(checkpoint, limit or 1 << 40, None)
    stop = bool if limit is None else checkpoint.exists
    try:
        return train(
            str(source),
            LinearClassifier(**SETTINGS),
            passes=PASSES,
            shuffle=False,
            classes=[-1, 1],
            checkpoints=checkpoints,
            resume=resume,
            stop=stop,
        ).model
    except StoppedError:
        return None


def main() -> None:
    """Write all files."""
    from sparsco import SparseClassifier, save
    from sparsco.streams import convert, open_stream
    from sparsco.training import archive

    X, y = rows()
    model = SparseClassifier(**SETTINGS, max_iter=2, tol=None, shuffle=False).fit(X, y)
    save(model, HERE / "model.sparsco")
    expected = {"coef": model.coef_.tolist(), "intercept": model.intercept_.tolist()}
    (HERE / "model.json").write_text(json.dumps(expected, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        source, checkpoint = write_text(Path(folder) / "rows.svm"), Path(folder) / "checkpoint"
        assert train_until(source, checkpoint, LIMIT) is None
        content = archive.read(checkpoint, "checkpoint")
    # what is of the machine that wrote it stays away, and so do two megabytes that only the first pass needs
    content |= {"identity": None, "environment": {}, "drift": None}
    archive.write(HERE / "checkpoint.sparsco", "checkpoint", content)
    shutil.rmtree(HERE / "cache", ignore_errors=True)
    convert(open_stream(X, y=y.astype(np.float64)), HERE / "cache")


if __name__ == "__main__":
    main()
