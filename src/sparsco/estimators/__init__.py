"""Linear models as scikit-learn estimators."""
