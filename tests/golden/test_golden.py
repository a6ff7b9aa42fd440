"""Models of small problems are the same, to the bit, as when the record was written (`support.golden`)."""

import itertools
import json

import numpy as np
import pytest

from support import golden

RECORD = json.loads(golden.RECORD.read_text())
CELLS = [cell for cell in golden.cells() if cell.name in RECORD["cells"]]
GROUPS = {group: list(cells) for group, cells in itertools.groupby(CELLS, lambda cell: cell.group)}


@pytest.mark.parametrize("group", GROUPS)
def test_models_are_those_of_the_record(group):
    is_same_environment = golden.environment() == RECORD["environment"]
    different = []
    for cell in GROUPS[group]:
        expected, *figures = RECORD["cells"][cell.name]
        answer = golden.answer(cell)
        if answer is None:
            different.append(f"{cell.name}: refused")
        elif golden.bits(answer) != expected:
            largest = np.abs(np.subtract(golden.figures(answer), figures)).max()
            if is_same_environment or not largest <= 1e-12 * max(figures[0], 1.0):
                different.append(f"{cell.name}: {largest:.1e}")
    assert not different


def test_every_cell_of_the_record_is_run():
    assert {cell.name for cell in CELLS} == set(RECORD["cells"])
