"""Faults injected on purpose, to measure error attribution."""
