"""Exact answers reach the optima of the record (`support.exact_problems`)."""

import itertools
import json

import pytest

from support import exact_problems
from support.exact_problems import TOLERANCE, Optimum

RECORD = {name: Optimum(*entry) for name, entry in json.loads(exact_problems.RECORD.read_text()).items()}
PROBLEMS = [problem for problem in exact_problems.problems() if problem.name in RECORD]
GROUPS = {loss: list(each) for loss, each in itertools.groupby(PROBLEMS, lambda problem: problem.loss)}


@pytest.mark.parametrize("loss", GROUPS)
def test_objectives_are_at_most_those_of_the_record(loss):
    worse = []
    for problem in GROUPS[loss]:
        expected, answer = RECORD[problem.name], exact_problems.solved(problem)
        slack = TOLERANCE * max(abs(expected.certified), 1e-3)
        if answer.given > expected.given + slack or answer.certified > expected.certified + slack:
            worse.append((problem.name, answer, expected))
        elif answer.features != expected.features:
            worse.append((problem.name, "features", answer.features, expected.features))
    assert not worse


def test_every_problem_of_the_record_is_solved():
    assert {problem.name for problem in PROBLEMS} == set(RECORD)
