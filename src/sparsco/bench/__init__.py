"""The benchmark: ours and other packages side by side on the same problems; ``sparsco bench`` runs it."""
