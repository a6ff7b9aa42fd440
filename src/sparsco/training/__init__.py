"""Streams to models: training with checkpoints, model files, scoring, inspection, comparison."""
