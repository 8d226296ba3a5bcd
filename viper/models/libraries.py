"""Heavy libraries, imported when a name of them is first needed.

:func:`import_libraries` imports torch and transformers in advance, without the garbage collections
that take a quarter of the time.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

from viper.errors import ModelError

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


class LazyModule:
    """Stands for a module that is imported at the first use of a name in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    # Kept, since decoding asks for names of torch at every token, and an import takes longer.
    @cached_property
    def _module(self) -> Any:
        return importlib.import_module(self._name)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._module, attribute)


if TYPE_CHECKING:
    import cv2 as cv2
    import torch as torch
    import transformers as transformers
    from PIL import Image as Image
    from torch import Tensor as Tensor
    from torch.nn import functional as functional
else:
    Tensor = Any  # in annotations only
    torch, functional = LazyModule("torch"), LazyModule("torch.nn.functional")
    transformers = LazyModule("transformers")
    cv2, Image = LazyModule("cv2"), LazyModule("PIL.Image")


def import_libraries() -> None:
    """Import torch and transformers, once in a process.

    The garbage collector no longer looks at objects that exist when this returns.

    Raises:
        ModelError: one of them is installed and cannot be loaded.
    """
    with _LOCK:
        if _LIBRARIES[-1] in sys.modules:
            return
        collects = gc.isenabled()
        gc.collect()  # garbage that exists at the freeze is not freed before the end
        gc.disable()
        try:
            for name in _LIBRARIES:
                try:
                    importlib.import_module(name)
                except ModuleNotFoundError:
                    pass  # the backend that needs it says so
                except ImportError as error:
                    raise ModelError(
                        f"{name.partition('.')[0]} is installed and cannot be loaded ({error}); "
                        "is memory limited (ulimit -v)?"
                    ) from None
        finally:
            gc.freeze()
            atexit.register(gc.unfreeze)  # some libraries report what the end did not free
            if collects:
                gc.enable()
