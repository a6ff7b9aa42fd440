"""Training from streams to models: checkpoints, model files, scoring, inspection, comparison."""
