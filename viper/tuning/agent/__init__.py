"""Tuning an agent on its own workflows: collect, flag, mask, train (DWIM)."""
