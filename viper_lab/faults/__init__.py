"""Faults planted on purpose, to measure how well they are found."""
