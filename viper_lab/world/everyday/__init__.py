"""Everyday English about scenes and clips: meanings that compose, their programs and wordings."""
