"""Training on many machines with Dask, in the same two phases; see docs/distributed.md.

    from sparsco import SparseClassifier
    from sparsco.distributed import fit

    model = fit(SparseClassifier(), ["part-0.svm", "part-1.svm"], client)

The result depends on the seed and the partitions alone.  Any number of workers, in any order, gives the same bits, and
so does ``client=None``, which needs no Dask.
"""

from .fitting import Fitted, fit, train
from .partitions import partitions_of

__all__ = ["Fitted", "fit", "partitions_of", "train"]
