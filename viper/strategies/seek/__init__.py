"""Strategy ``seek``: one step at a time, each from what the last one found (AVIS)."""
