"""Evaluation runs in a browser: filter, sort, compare, look into a sample."""
