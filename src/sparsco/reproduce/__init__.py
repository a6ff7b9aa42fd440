"""The papers' tables and figures, rerun: data files in ``papers``, one trial, all trials, verdicts, reports.

``sparsco reproduce`` is the command; docs/reproduce.md explains the data files.
"""
