"""Reproduction of the papers' tables and figures: data files in ``papers``, trials, verdicts, reports.

``sparsco reproduce`` is the command; docs/reproduce.md explains the data files.
"""
