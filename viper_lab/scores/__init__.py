"""How well the embedded models know their world."""
