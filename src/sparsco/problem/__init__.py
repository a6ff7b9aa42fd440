"""The inputs of an optimizer: the problem and its state, the targets, statistics of the first rows."""
