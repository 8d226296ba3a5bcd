"""Import torch and transformers without the garbage collections that take a quarter of the time."""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
import threading
from contextlib import suppress

# Modules that the first model would import one by one; the last one says that all are there.
_LIBRARIES = (
    "torch",
    "torchvision",
    "transformers.loss.loss_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.processing_auto",
    "transformers.modeling_utils",
)
_LOCK = threading.Lock()


def import_libraries() -> None:
    """Import torch and transformers, once in a process.

    The garbage collector no longer looks at objects that exist when this returns.
    """
    with _LOCK:
        if _LIBRARIES[-1] in sys.modules:
            return
        collects = gc.isenabled()
        gc.collect()  # garbage that exists at the freeze is not freed before the end
        gc.disable()
        try:
            for name in _LIBRARIES:
                with suppress(ImportError):  # the backend that needs it says so
                    importlib.import_module(name)
        finally:
            gc.freeze()
            atexit.register(gc.unfreeze)  # some libraries report what the end did not free
            if collects:
                gc.enable()
