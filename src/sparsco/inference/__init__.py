"""Standard errors and intervals for the weights of selected features."""
