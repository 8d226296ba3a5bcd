"""Viewer of evaluation runs in a browser: filter, sort, compare, inspect a sample."""
