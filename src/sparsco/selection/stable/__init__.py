"""Selections that hold: staged learning on many paths, purging what they do not agree on.

``prepare`` scales rows and columns, ``sts`` is our method, ``bursts`` the paper's, ``stream`` ours in one pass,
``estimators`` the scikit-learn side of all of them and ``report`` how stable any estimator's selection is.
"""
