"""Loading models and opening the run while the page can already be seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from viper.errors import ModelError, ViperError
from viper.reasoner import Reasoner
from viper.web.demo.asked_run import AskedRun


class Opening:
    """Does both in a thread of its own.

    Attributes:
        on_failure: called where it cannot be done, in the thread.
    """

    def __init__(self, reasoner: Reasoner, folder: Path, document: Mapping[str, Any]) -> None:
        self.on_failure: Callable[[], None] | None = None
        self._reasoner, self._folder, self._document = reasoner, folder, document
        self._ended = threading.Event()
        self._run: AskedRun | None = None
        self._error: ViperError | None = None

    def start(self) -> None:
        """Begins; returns at once."""
        threading.Thread(target=self._open, name="viper-demo-opening", daemon=True).start()

    def wait(self, timeout_s: float) -> AskedRun | None:
        """The run once models are loaded; None where they still are not after that time.

        Raises:
            ViperError: they cannot be loaded, or the folder cannot be written.
        """
        self._ended.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return self._run

    def close(self) -> None:
        """Lets the next writer into the run's folder."""
        if self._run is not None:
            self._run.close()

    def _open(self) -> None:
        parts = self._reasoner.components
        try:
            parts.sandbox.start()
            parts.hub.models.load_all()
            _ = parts.llm.max_context  # a model that loads itself on first use does it here
            self._run = AskedRun.open(self._folder, self._reasoner, self._document)
        except ViperError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - whatever a model library raises
            self._error = ModelError(f"a model cannot be loaded: {type(error).__name__}: {error}")
        self._ended.set()
        if self._error is not None and self.on_failure is not None:
            self.on_failure()
