"""Faults injected on purpose, to measure how well they are found."""
