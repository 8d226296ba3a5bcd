"""Models by role: loaded on first use, one lock each, within a memory limit."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from viper.errors import ModelError, ToolError
from viper.models.loading import MEMORY_ADVICE, ONE_AT_A_TIME, is_out_of_memory

ROLES = (
    "detector",
    "matcher",
    "depth",
    "vqa",
    "segmenter",
    "inpainter",
    "faces",
    "ocr",
    "video",
    "text",
    "embedder",
    "image_search",
    "text_search",
)


ON_DEMAND = frozenset({"segmenter", "inpainter", "faces", "ocr", "image_search", "text_search"})
"""Roles that few programs use: never loaded before their first use."""


class ModelSet:
    """Backends by role, each loaded when it is first needed.

    One thread at a time uses a backend, unless its attribute ``concurrent`` is true, as for
    endpoints. Different roles run side by side, unless they share a model.

    Args:
        loaders: role name to a function that returns the backend.
        max_bytes: limit on the weights of all loaded backends together. Backends that have not
            been used for longest are unloaded first. None sets no limit. A single backend above
            the limit is loaded anyway, alone.
    """

    def __init__(
        self, loaders: Mapping[str, Callable[[], Any]], max_bytes: int | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self._loaders: dict[str, Callable[[], Any]] = {}
        self._weights: dict[str, _Weights] = {}
        self._traits: dict[tuple[str, str], Any] = {}
        self._clock = itertools.count(1)
        for role, loader in loaders.items():
            self.add(role, loader)

    def add(self, role: str, loader: Callable[[], Any]) -> None:
        """Give a role a backend with its own weights, loaded when it is first needed."""
        self._loaders[role] = loader
        self._weights[role] = _Weights()

    def add_sharing(
        self,
        role: str,
        key: Any,
        load: Callable[[], Any],
        on: Callable[[Any], Any],
        *,
        keep: bool = False,
    ) -> None:
        """Give a role a backend on a model that other roles may use too.

        The model is loaded once, when the first of its roles is needed. Its memory counts once, and
        it is unloaded together with all its backends. Its roles take turns.

        Args:
            key: equal for the roles that share the model, never None.
            load: returns the model.
            on: returns the role's backend on the loaded model; loads nothing.
            keep: never unload it, because a language model outside of this set uses it too.
        """
        sharing = (weights for weights in self._weights.values() if weights.key == key)
        weights = next(sharing, None) or _Weights(key, keep)

        def loader() -> Any:
            if weights.model is None:
                weights.model = load()
            return on(weights.model)

        self._loaders[role] = loader
        self._weights[role] = weights

    def with_roles(self, loaders: Mapping[str, Callable[[], Any]]) -> ModelSet:
        """Return the same models, loaded once for both sets, with other backends in some roles."""
        other = copy.copy(self)
        other._loaders, other._weights = dict(self._loaders), dict(self._weights)
        other._traits = {key: value for key, value in self._traits.items() if key[0] not in loaders}
        for role, loader in loaders.items():
            other.add(role, loader)
        return other

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self._loaders)

    def loaded(self) -> dict[str, Any]:
        """Return the backends that are loaded now."""
        return {
            role: weights.backends[role]
            for role, weights in self._weights.items()
            if role in weights.backends
        }

    def memory_bytes(self) -> int:
        """Return the memory of the loaded weights; backends that do not state it count 0."""
        return sum(weights.size for weights in set(self._weights.values()))

    def get(self, role: str) -> Any:
        """Return the backend of a role.

        Raises:
            ToolError: this profile gives the role to no model.
            ModelError: it cannot be loaded.
        """
        if role not in self._loaders:
            raise ToolError(f"no model plays the role {role!r} in this profile")
        weights = self._weights[role]
        with weights.lock:
            if role not in weights.backends:
                with ONE_AT_A_TIME:
                    try:
                        weights.backends[role] = self._loaders[role]()
                    finally:  # a shared model may be loaded even if this backend failed
                        self._make_room(weights)
            weights.used = next(self._clock)
            return weights.backends[role]

    @contextmanager
    def using(self, role: str) -> Iterator[Any]:
        """Hold the backend of a role while the block runs, for this thread alone unless it is
        concurrent.

        Raises:
            ModelError: a device ran out of memory; the message says what to change.
        """
        if self.concurrent(role):
            yield self.get(role)
            return
        weights = self._weights[role]
        with weights.lock:
            backend = self.get(role)
            weights.holds += 1
            try:
                yield backend
            except Exception as error:
                if is_out_of_memory(error):
                    raise ModelError(f"{role}: {MEMORY_ADVICE}") from error
                raise
            finally:
                weights.holds -= 1

    def trait(self, role: str, name: str, *default: Any) -> Any:
        """Return a fixed attribute of the role's backend, such as ``model_id``, and remember it.

        A remembered attribute neither waits for a busy model nor reloads one.
        """
        if (role, name) not in self._traits:
            self._traits[role, name] = getattr(self.get(role), name, *default)
        return self._traits[role, name]

    def concurrent(self, role: str) -> bool:
        """Return True if the role's backend serves callers concurrently."""
        return bool(self.trait(role, "concurrent", False))

    def shared(self, role: str) -> Any:
        """Return a backend for another one to use, each of whose methods waits for its turn.

        Returns None if no model plays the role.
        """
        return _Shared(self, role) if role in self._loaders else None

    def load_all(self) -> None:
        """Load every backend now except :data:`ON_DEMAND`, to warm up a server or to measure."""
        for role in self._preload_roles():
            self.get(role)

    def load_in_background(self) -> threading.Thread:
        """Load every backend except :data:`ON_DEMAND` in a new thread.

        A backend that cannot be loaded raises at its first use. A process that ends waits for the
        backend that is being loaded, and starts no further one. If the end of the interpreter
        stopped the thread within a library's own code, the process would abort.
        """

        def load() -> None:
            for role in self._preload_roles():
                if not threading.main_thread().is_alive():
                    return
                with contextlib.suppress(Exception):
                    self.get(role)

        thread = threading.Thread(target=load, name="viper-preload")
        thread.start()
        return thread

    def _preload_roles(self) -> list[str]:
        return [role for role in self._loaders if role not in ON_DEMAND]

    def _make_room(self, newest: _Weights) -> None:
        """Unload weights that nobody uses at the moment until the total is within the limit."""
        if self.max_bytes is None:
            return
        for weights in sorted(set(self._weights.values()), key=lambda each: each.used):
            if self.memory_bytes() <= self.max_bytes:
                return
            if weights is newest or weights.holds or weights.keep or not weights.size:
                continue
            if weights.lock.acquire(blocking=False):
                try:
                    weights.model = None
                    weights.backends.clear()
                finally:
                    weights.lock.release()
                _release_memory()


@dataclass(eq=False)
class _Weights:
    """Weights of one role, or of the roles that share a model: used and unloaded as one.

    Attributes:
        key: common to the roles that share it; None if it serves one role alone.
        keep: never unloaded.
        model: the model behind their backends; None if it is not loaded, or they share none.
        backends: the loaded ones by role.
        used: time of the last use as a counter; larger is later.
        holds: blocks that use it now; the thread that makes room may be inside one itself.
    """

    key: Any = None
    keep: bool = False
    model: Any = None
    backends: dict[str, Any] = field(default_factory=dict)
    used: int = 0
    holds: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def size(self) -> int:
        """Return the size in bytes; backends on one model all state the model's size."""
        backends = [self.model, *self.backends.values()]
        return max(int(getattr(backend, "memory_bytes", 0)) for backend in backends)


class _Shared:
    """Stands for the backend of a role; loads it on first use, one thread at a time."""

    def __init__(self, models: ModelSet, role: str) -> None:
        self._models, self._role = models, role

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._models.get(self._role), name)
        if not callable(value):
            return value

        def under_lock(*args: Any, **kwargs: Any) -> Any:
            with self._models.using(self._role) as backend:
                return getattr(backend, name)(*args, **kwargs)

        return under_lock


def _release_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
