"""A run: rows through an optimizer and a conversion; the certified optimum."""
