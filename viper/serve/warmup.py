"""Loading everything before the first request needs it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal

from viper.reasoner import Reasoner

State = Literal["loading", "ready", "failed"]


class Warmup:
    """Loads the models and starts the sandbox in a thread of its own.

    Attributes:
        state: where that is; ``failed`` once something could not be loaded.
        error: what could not, and why.
        on_failure: called then, in the thread.
    """

    def __init__(self, reasoner: Reasoner) -> None:
        self.state: State = "loading"
        self.error: Exception | None = None
        self.on_failure: Callable[[], None] | None = None
        self._reasoner = reasoner
        self._ended = threading.Event()

    def start(self) -> None:
        """Begins; returns at once."""
        threading.Thread(target=self._load, name="viper-warmup", daemon=True).start()

    def wait(self, timeout_s: float) -> State:
        """The state once loading has ended, or after so many seconds."""
        self._ended.wait(timeout_s)
        return self.state

    def _load(self) -> None:
        parts = self._reasoner.components
        try:
            parts.sandbox.start()
            parts.hub.models.load_all()
            _ = parts.llm.max_context  # a model that loads itself on first use does it here
        except Exception as error:  # noqa: BLE001 - whatever a model library raises
            logging.getLogger("viper.serve").error("warm-up failed: %s", error)
            self.state, self.error = "failed", error
        else:
            self.state = "ready"
        self._ended.set()
        if self.error is not None and self.on_failure is not None:
            self.on_failure()
