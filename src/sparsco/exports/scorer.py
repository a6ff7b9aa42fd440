"""The record of a model that every export is written from: what enters, how features are made of it, the link.

A score is the intercept plus the sum of weight times value over the selected features.  A feature's value is a sum of
*terms*: the number of a feature, and a sign, which only hashing makes negative.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..text.spec import TextSpec

VERSION = 1
"""The version of the JSON schema."""
COLUMNS, NAMES, TABLE, TEXT = "columns", "names", "table", "text"
IDENTITY, EXP, NONE, ONE, LOGISTIC, SHARES, SOFTMAX = (
    "identity",
    "exp",
    "none",
    "one",
    "logistic",
    "one-vs-rest",
    "softmax",
)
"""The links.  A regression predicts its scores, or their exponentials.  A classifier has no probabilities, one class,
the logistic function of one score, those of all classes scaled to a sum of one, or a softmax."""

Term = tuple[int, int]


class ExportError(ValueError):
    """A model that a format cannot express; the message is one sentence."""


class Numbers(NamedTuple):
    """A column of numbers or booleans."""

    name: str
    boolean: bool
    fill: float | None
    """The number that stands for a missing cell; None: a missing cell is refused."""
    value: Term | None
    hole: Term | None
    """The feature of a missing cell."""
    marks: tuple[str, ...]
    """The texts of a missing cell."""
    log: bool = False
    """Whether the logarithm of the number counts, as in the offset of an exposure."""


class Category(NamedTuple):
    """A column of categories; ``terms`` are those of single categories."""

    name: str
    terms: dict[str, Term]
    hashed: bool
    """Whether any other category has a column by its hash."""
    pool: Term | None
    """The feature of the pool of rare categories."""
    pooled: tuple[str, ...]
    """The categories in the pool; with ``pools_others`` those that are not in it."""
    pools_others: bool
    hole: Term | None
    marks: tuple[str, ...]


class Date(NamedTuple):
    """A column of dates: days since a day, months and weekdays."""

    name: str
    fill: float | None
    origin: int
    value: Term | None
    months: tuple[Term | None, ...]
    weekdays: tuple[Term | None, ...]
    hole: Term | None
    marks: tuple[str, ...]


class Text(NamedTuple):
    """A column of texts; ``terms`` are those of words or n-grams, without the prefix of the column."""

    name: str
    spec: TextSpec
    terms: dict[str, Term]
    seed: int = 0
    """The seed of the fingerprints of its features."""
    texts: int = 0
    """The number of texts behind the frequencies of tf-idf."""
    documents: dict[int, int] | None = None
    """In how many of them a feature occurs, by its fingerprint, or by its column if names are hashed; None without."""


class Hash(NamedTuple):
    """The hash of names into columns; ``features`` are those of columns that have a weight."""

    bits: int
    seed: int
    signed: bool
    features: dict[int, int]


class Scorer(NamedTuple):
    """A model: what enters, features, weights, link."""

    kind: str
    """What a row is: numbered columns, names with values, cells of a table, or one text."""
    names: tuple[str, ...]
    """The names of the selected features."""
    columns: tuple[int, ...]
    """The numbers of their columns, as rows have them; empty if features have names only.  An offset has none."""
    first: int
    """The number of the first column: 1 for LIBSVM text that counts from 1, else 0."""
    has_names: bool
    """Whether columns have names of their own, as those of a data frame do."""
    weights: np.ndarray
    """(features, outputs)."""
    intercepts: np.ndarray
    link: str
    classes: tuple[Any, ...] | None
    is_vector: bool
    """Whether a regression predicts a vector, also of one output."""
    platt: np.ndarray | None = None
    """The slopes and intercepts of calibrated probabilities, (2, outputs)."""
    class_weights: np.ndarray | None = None
    """What probabilities of balanced classes are divided by."""
    parts: tuple[Numbers | Category | Date | Text, ...] = ()
    """The columns of a table, or the one text."""
    hash: Hash | None = None
    refusal: str = ""
    """Why rows of the model cannot be scored elsewhere; only its weights can be written then."""

    @property
    def texts(self) -> list[Text]:
        """Return the columns of texts."""
        return [part for part in self.parts if isinstance(part, Text)]

    @property
    def hashes_cells(self) -> bool:
        """Return whether names must be hashed when a row is scored."""
        return self.hash is not None

    @property
    def output_names(self) -> list[str]:
        """Return a name for each output: the class that it speaks for, or its number."""
        if self.classes is None:
            return ["prediction"] if len(self.intercepts) == 1 else [str(k) for k in range(len(self.intercepts))]
        labels = [str(label) for label in self.classes]
        return labels[-1:] if len(self.intercepts) == 1 else labels
