"""The choice of strength and mixture from the data: candidates, held-out rows, and the rule that chooses."""
