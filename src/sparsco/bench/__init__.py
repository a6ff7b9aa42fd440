"""The benchmark: our methods and other packages on the same problems; ``sparsco bench`` runs it."""
