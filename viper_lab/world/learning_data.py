"""The embedded world as data for learning: its own annotated store and picture search."""

from __future__ import annotations

from viper.tuning.training_data import AnnotatedStore, PictureSearch
from viper_lab.world.annotated import WorldStore
from viper_lab.world.found import WorldPictureSearch


def annotated() -> AnnotatedStore:
    """Return the store of scenes with boxes and masks."""
    return WorldStore()


def pictures(seed: int) -> PictureSearch:
    """Return the search; see :class:`~viper_lab.world.found.WorldPictureSearch`."""
    return WorldPictureSearch(seed=seed)
