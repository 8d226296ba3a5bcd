"""Queries of the embedded world: their meanings, wordings and canonical programs."""
