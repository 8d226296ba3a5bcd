"""Annotated pictures of a concept from LVIS, whose files are below ROOT."""

from pathlib import Path

from viper.tuning.lvis import Lvis

store = Lvis(Path("ROOT"))
print(store.names_of("Mugs"))
print(len(store.samples("mug", limit=200, seed=0)))
