"""Linear models behind scikit-learn's contract."""
