"""Queries of the embedded world: what they mean, how they are said, which program answers them."""
