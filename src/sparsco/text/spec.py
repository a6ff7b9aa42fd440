"""The options that turn a text into features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

WORD, CHAR = "word", "char"
COUNT, BINARY, LOG, TFIDF = "count", "binary", "log", "tfidf"
WEIGHTINGS = (COUNT, BINARY, LOG, TFIDF)
LONGEST = 16
"""The largest number of words or characters in an n-gram."""


class TextSpec(NamedTuple):
    """How a text becomes features: words, phrases of words or n-grams of characters, and their values.

    ``ngrams`` are the least and the largest number of words (or characters) in a feature; None is the default of the
    analyzer.  ``weighting`` is the value of a feature that occurs c times in a text: c, 1, 1 + log(c), or c times the
    inverse document frequency.  ``norm`` divides the values of a row by their Euclidean norm.  With
    ``shapes`` a word with digits also counts as its shape: 50p is a feature, and so is ##p.  ``prefix`` is put before
    all names.
    """

    analyzer: str = WORD
    ngrams: tuple[int, int] | None = None
    lowercase: bool = True
    strip_accents: bool = False
    weighting: str = LOG
    norm: bool = True
    shapes: bool = True
    prefix: str = ""
    min_count: int = 1
    """The number of texts in which a feature must occur before it gets a column."""

    @property
    def counts(self) -> bool:
        """Return whether the row of a text depends on the texts before it."""
        return self.weighting == TFIDF or self.min_count > 1

    @property
    def lengths(self) -> tuple[int, int]:
        """Return the least and the largest length of an n-gram."""
        if self.ngrams is None:
            return (1, 1) if self.analyzer == WORD else (2, 4)
        return self.ngrams

    def settings(self) -> dict[str, Any]:
        """Return the options as JSON types."""
        found = self._asdict() | {"ngrams": list(self.lengths)}
        if self.min_count == 1:
            del found["min_count"]  # as in identities of before
        return found

    def check(self) -> TextSpec:
        """Return the record itself; raise a ValueError for an option that is not valid."""
        if self.analyzer not in (WORD, CHAR):
            raise ValueError(f"analyzer must be 'word' or 'char', not {self.analyzer!r}.")
        if self.weighting not in WEIGHTINGS:
            raise ValueError(f"weighting must be one of {', '.join(WEIGHTINGS)}, not {self.weighting!r}.")
        if self.ngrams is not None:
            is_pair = isinstance(self.ngrams, tuple | list) and len(self.ngrams) == 2
            if not is_pair or not all(isinstance(n, int) for n in self.ngrams):
                raise ValueError(f"ngrams must be a pair of whole numbers such as (1, 2), not {self.ngrams!r}.")
            if not 1 <= self.ngrams[0] <= self.ngrams[1] <= LONGEST:
                raise ValueError(
                    f"ngrams must be a pair (low, high) with 1 <= low <= high <= {LONGEST}, not {self.ngrams!r}."
                )
        if not isinstance(self.min_count, int) or self.min_count < 1:
            raise ValueError(f"min_count must be a whole number of at least 1, not {self.min_count!r}.")
        if not isinstance(self.prefix, str):
            raise ValueError(f"prefix must be a text, not {self.prefix!r}.")
        return self


def spec_of(options: TextSpec | Mapping[str, Any] | None) -> TextSpec:
    """Return the record of some options of rows that are read one by one; raise a ValueError if one is not valid."""
    if not isinstance(options, TextSpec):
        for name in options or {}:
            if name not in TextSpec._fields:
                raise ValueError(f"text_options has {name!r}: choose from {', '.join(TextSpec._fields)}.")
        options = TextSpec(**dict(options or {}))
    spec = options._replace(ngrams=options.lengths).check()
    low, high = spec.lengths
    return spec._replace(ngrams=(low, high))
