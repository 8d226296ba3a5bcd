"""Import torch and transformers without the parts of them that no backend uses.

Both import torch's compiler for decorators and functions of code that is not reached here, and
``scipy.optimize`` for a loss of training. These modules, and garbage collections while thousands of
others come to be, take half of the time. Placeholders stand for them until one is really used.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import sys
import threading
from contextlib import suppress
from types import ModuleType
from typing import Any

_FUNCTIONS = (
    ("torch._dynamo.utils", "is_compile_supported"),  # for torchvision.ops
    ("torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex"),  # for masks
    ("scipy.optimize", "linear_sum_assignment"),  # for losses of detectors
)
"""Modules of which one function is imported; calling it loads the module."""

_LIBRARIES = (
    "torchvision",
    "transformers.loss.loss_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.processing_auto",
    "transformers.modeling_utils",
)
_LOCK = threading.Lock()


def import_libraries() -> None:
    """Import torch and transformers, once in a process.

    Whatever uses a module that was left out loads it then. The garbage collector no longer looks at
    objects that exist when this returns.
    """
    with _LOCK:
        if "transformers.modeling_utils" in sys.modules:
            return
        placeholders = [_Compiler("torch._dynamo"), *(_Placeholder(*each) for each in _FUNCTIONS)]
        collects = gc.isenabled()
        gc.collect()  # garbage that exists at the freeze is not freed before the end
        gc.disable()
        try:
            import torch  # noqa: F401  the placeholders are for what comes after it

            for placeholder in placeholders:
                sys.modules.setdefault(placeholder.__name__, placeholder)
            for name in _LIBRARIES:
                with suppress(ImportError):  # the backend that needs it says so
                    importlib.import_module(name)
        finally:
            placeholders[-1].remove()  # others import its submodules
            gc.freeze()
            atexit.register(gc.unfreeze)  # some libraries report what the end did not free
            if collects:
                gc.enable()


class _Placeholder(ModuleType):
    """Stands for a module; any attribute but its function loads the module and returns the
    module's.
    """

    def __init__(self, name: str, function: str = "") -> None:
        super().__init__(name)
        if function:
            setattr(self, function, functools.partial(self._call, function))

    def _call(self, function: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.load(), function)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks for these in every module
            raise AttributeError(name)
        return getattr(self.load(), name)

    def load(self) -> ModuleType:
        """Load the module in place of this placeholder."""
        self.remove()
        return importlib.import_module(self.__name__)

    def remove(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


class _Compiler(_Placeholder):
    """Stands for the compiler, and applies the decorators of it when it is loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._marks: list[tuple[str, Any]] = []
        self.allow_in_graph = functools.partial(self._mark, "allow_in_graph")
        self.assume_constant_result = functools.partial(self._mark, "assume_constant_result")

    def _mark(self, mark: str, function: Any) -> Any:
        self._marks.append((mark, function))
        return function

    def disable(self, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        if function is None:
            return functools.partial(self.disable, **kwargs)
        run = function

        @functools.wraps(function)
        def disabled(*values: Any, **named: Any) -> Any:
            nonlocal run
            compiler: Any = sys.modules.get(self.__name__)
            if run is function and compiler is not self and hasattr(compiler, "disable"):
                run = compiler.disable(function, *args, **kwargs)
            return run(*values, **named)  # nothing is compiled before the compiler is loaded

        return disabled

    def __getattr__(self, name: str) -> Any:
        # A submodule is imported only if more than the functions above is needed.
        return self.load().__path__ if name == "__path__" else super().__getattr__(name)

    def load(self) -> ModuleType:
        """Load the compiler, and mark the functions that it was to know of."""
        for name, _ in _FUNCTIONS:
            placeholder = sys.modules.get(name)
            if name.startswith(self.__name__) and isinstance(placeholder, _Placeholder):
                placeholder.remove()
        module = super().load()
        while self._marks:
            mark, function = self._marks.pop()
            getattr(module, mark)(function)
        return module
