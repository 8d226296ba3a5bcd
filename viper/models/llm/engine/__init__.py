"""Decoding engine for models of transformers; docs/design/decoding.md gives the reasons."""
