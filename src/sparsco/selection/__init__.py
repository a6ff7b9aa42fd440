"""Choosing among models: paths of strengths, cross-validation, stable selections."""
