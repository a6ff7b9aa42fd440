"""What tests share: dense recursions, plain readings, generated streams, tables of cases; how much of them is run.

``make test-long`` sets both variables: what repeats a property with more seeds, sizes or streams is left to it.
"""

import os
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LONG = bool(os.environ.get("SPARSCO_LONG_TESTS"))


def number_of_streams(usual: int) -> int:
    """The number of streams, or of examples of another kind, to try, as SPARSCO_STREAMS says."""
    return int(os.environ.get("SPARSCO_STREAMS", usual))
