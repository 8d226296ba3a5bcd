"""Measures fitted jobs: one question about many pictures, from a few labels."""
