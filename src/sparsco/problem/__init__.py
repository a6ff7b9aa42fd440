"""What an optimizer is given: the problem and its state, the targets, what the first rows show."""
