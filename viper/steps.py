"""Steps of the work that is going on, such as the loading of a model, for whoever shows a wait.

A step is logged at level DEBUG where it begins and ends, which costs nothing unless somebody
listens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

LOG = logging.getLogger("viper.steps")


@contextmanager
def step(text: str) -> Iterator[None]:
    """Log that a step begins, and where the block ends the same with ``ended``."""
    LOG.debug(text)
    try:
        yield
    finally:
        LOG.debug(text, extra={"ended": True})
