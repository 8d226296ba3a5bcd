"""Folder of a run: manifest, results, and the lock of its writer."""
