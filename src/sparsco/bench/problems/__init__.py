"""Problems of ``sparsco bench`` besides one L1 logistic regression: paths, groups, several classes, least squares."""
