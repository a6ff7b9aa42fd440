"""Rows and features: matrices of rows, slots of features, reproducible random draws, the order of rows."""
