"""The folder of a run: what was asked, every judged sample, who writes it."""
