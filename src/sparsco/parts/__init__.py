"""Contracts of losses, penalties, mirror maps, step rules, optimizers and conversions; projections."""
