"""Decoding of our own for models that transformers loads; why, in docs/design/decoding.md."""
