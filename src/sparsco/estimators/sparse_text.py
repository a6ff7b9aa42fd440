"""A scikit-learn transformer from texts to sparse rows, for pipelines and for streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..jit.dispatch import U
from ..streams.features import Hashed
from ..streams.frequencies import Frequencies, check_hashing
from ..text.encoding import TextEntries, encoded
from ..text.frequencies import inverse_frequencies
from ..text.spec import TFIDF, TextSpec
from ..util.attributes import stored
from .views import NOT_FITTED, Shown, Viewed


class _Seen(Frequencies):
    """The frequencies of features, with the names of those that have a column."""

    def __init__(self, least: int, hash_bits: int | None, seed: int) -> None:
        super().__init__(least, None if hash_bits is None else Hashed(hash_bits, seed))
        self.names = list[str]()

    @property
    def width(self) -> int:
        return self.used if self.hashed is None else len(self.hashed)

    def name(self, entries: TextEntries, new: np.ndarray) -> None:
        """Add the names of features that get a column."""
        if self.hashed is None:
            self.names += entries.names_of(new)


class SparseText(Viewed, TransformerMixin, BaseEstimator):
    """Texts as sparse rows of words, phrases or n-grams of characters.

    The names of the columns are the words themselves.  The transformer learns which features there are, and in how many
    texts each occurs.  It can learn from a stream, text by text: nothing depends on how the texts are cut into calls.

    Parameters
    ----------
    analyzer : {"word", "char"}
        Words, or characters.  Words are runs of letters, digits, marks and underscores; an ideograph, a currency sign
        or an emoji is a word of its own.
    ngrams : (int, int), optional
        The least and the largest number of words, or characters, in a feature.  The default is (1, 1) for words and
        (2, 4) for characters.
    lowercase : bool
        If True, letters are folded to lower case.
    strip_accents : bool
        If True, accents and other combining marks are removed.
    weighting : {"log", "count", "binary", "tfidf"}
        The value of a feature that occurs c times in a text: 1 + log(c), c, 1, or c times log((1 + n) / (1 + m)) + 1
        for n texts, of which m have the feature.
    norm : bool
        If True, the values of a text are divided by their Euclidean norm, over all its features, also unknown ones.
    shapes : bool
        If True, a word with digits also counts as its shape: ``50p`` is a feature, and so is ``##p``.
    min_count : int
        The number of texts in which a feature must occur before it gets a column.
    hash_bits : int, optional
        If given, features are hashed into 2 ** hash_bits columns, and there is no vocabulary.
    seed : int
        The seed of the hash.

    Attributes
    ----------
    n_texts_ : int
        The number of texts that were learned.
    document_counts_ : ndarray
        The number of these texts that have the feature, for each column.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sparsco import SparseClassifier, SparseText
    >>> texts = ["win a prize now", "see you now", "free prize", "see me at home"] * 20
    >>> labels = ["spam", "ham", "spam", "ham"] * 20
    >>> model = make_pipeline(SparseText(), SparseClassifier(alpha=0.01, random_state=0)).fit(texts, labels)
    >>> model.predict(["a free prize", "see you at home"]).tolist()
    ['spam', 'ham']
    >>> SparseText(ngrams=(1, 2)).fit(["Free prize!"]).get_feature_names_out().tolist()
    ['free', 'free prize', 'prize']
    """

    def __init__(
        self,
        *,
        analyzer: str = "word",
        ngrams: tuple[int, int] | None = None,
        lowercase: bool = True,
        strip_accents: bool = False,
        weighting: str = "log",
        norm: bool = True,
        shapes: bool = True,
        min_count: int = 1,
        hash_bits: int | None = None,
        seed: int = 0,
    ) -> None:
        self.analyzer, self.ngrams, self.lowercase, self.strip_accents = analyzer, ngrams, lowercase, strip_accents
        self.weighting, self.norm, self.shapes, self.min_count = weighting, norm, shapes, min_count
        self.hash_bits, self.seed = hash_bits, seed

    # ---- learning --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features of texts, and forget those learned before."""
        seen = self._new()
        for entries in self._encoded(X):
            seen.learn(entries)
        self._seen = seen
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn the features of more texts; columns stay where they are, and new ones follow."""
        seen = self._begun()
        for entries in list(self._encoded(X)):  # an error in a late text leaves everything as it was
            seen.learn(entries)
        self._seen = seen
        return self

    def fit_transform(self, X: Any, y: Any = None) -> sp.csr_matrix:
        """Return what ``fit(X).transform(X)`` returns; the texts are read once."""
        seen = self._new()
        learned = [(entries, seen.learn(entries)[0]) for entries in self._encoded(X)]
        self._seen = seen
        return self._stacked(
            [self._rows(seen, entries, *seen.of_slots(slots)[1:], seen.texts) for entries, slots in learned]
        )

    def partial_fit_transform(self, X: Any, y: Any = None) -> sp.csr_matrix:
        """Learn texts, and return the row of each as of then: a row depends on the texts up to it, and on no later one.

        So the rows of a stream are the same however it is cut.  The matrix has all columns that are known after X.
        """
        seen, rows = self._begun(), []
        for entries in list(self._encoded(X)):
            before = seen.texts
            rows.append(self._rows(seen, entries, *seen.learn(entries)[1:], before, growing=True))
        self._seen = seen
        return self._stacked(rows)

    # ---- rows ------------------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> sp.csr_matrix:
        """Return a row for each text; columns and frequencies are those of all texts learned so far."""
        check_is_fitted(self)
        seen = self._seen
        return self._stacked(
            [self._rows(seen, entries, *seen.find(entries)[1:], seen.texts) for entries in self._encoded(X)]
        )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns: words and phrases; with hashing the first one of each column."""
        check_is_fitted(self)
        hashed = self._seen.hashed
        if hashed is None:
            return np.array(self._seen.names, object)
        return np.array([hashed.names.get(column, f"x{column}") for column in range(len(hashed))], object)

    @property
    def n_texts_(self) -> int:
        """Return the number of texts that were learned."""
        check_is_fitted(self)
        return self._seen.texts

    @property
    def document_counts_(self) -> np.ndarray:
        """Return the number of texts that have the feature, for each column."""
        check_is_fitted(self)
        seen = self._seen
        if seen.hashed is not None:
            return seen.documents.copy()
        found = np.zeros(seen.used, np.int64)
        has_column = seen.columns >= 0
        found[seen.columns[has_column]] = seen.documents[has_column]
        return found

    def vocabulary(self) -> tuple[TextSpec, _Seen]:
        """Return the options of texts and the features that were seen, for exports."""
        check_is_fitted(self)
        spec = self._spec()
        return spec._replace(ngrams=spec.lengths), self._seen

    def shown(self) -> Shown:
        """Return what the HTML view shows: the number of texts that were learned."""
        return Shown(f"{self._seen.texts:,} texts learned" if self.__sklearn_is_fitted__() else NOT_FITTED)

    def __sklearn_is_fitted__(self) -> bool:
        return stored(self, "_seen") is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def _spec(self) -> TextSpec:
        options = self.analyzer, self.ngrams, bool(self.lowercase), bool(self.strip_accents), self.weighting
        return TextSpec(*options, bool(self.norm), bool(self.shapes), min_count=self.min_count).check()

    def _new(self) -> _Seen:
        check_hashing(self._spec(), self.hash_bits)
        return _Seen(self.min_count, self.hash_bits, self.seed)

    def _begun(self) -> _Seen:
        return self._seen if self.__sklearn_is_fitted__() else self._new()

    def _encoded(self, X: Any) -> Iterator[TextEntries]:
        """Yield the features of some texts at a time."""
        return encoded(X, self._spec(), self.seed)

    def _rows(
        self,
        seen: _Seen,
        entries: TextEntries,
        columns: np.ndarray,
        documents: np.ndarray,
        texts: int,
        growing: bool = False,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return lengths, columns and values of the rows of texts.

        ``texts`` is the number of texts that frequencies are of; if it is ``growing``, before the first row.
        """
        values = entries.values
        if self.weighting == TFIDF:
            inverse_frequencies(entries.indptr, documents, texts, growing, bool(self.norm), values)
        if seen.hashed is not None:
            values = values * np.where(entries.keys & U(1 << 31), -1.0, 1.0)
        kept = columns >= 0
        lengths = np.diff(np.append(0, np.cumsum(kept))[entries.indptr])
        return lengths, columns[kept], values[kept]

    def _stacked(self, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> sp.csr_matrix:
        lengths, columns, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        indptr, width = np.append(0, np.cumsum(lengths)), self._seen.width
        kind = np.int32 if max(indptr[-1], width) < 1 << 31 else np.int64
        shape = len(lengths), width
        found = sp.csr_matrix((values, columns.astype(kind), indptr.astype(kind)), shape=shape)
        found.sum_duplicates()
        return found
