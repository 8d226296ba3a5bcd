"""The models behind the roles: loaded on first use, one lock each, within a bound of memory."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from viper.errors import ModelError, ToolError
from viper.tools.loading import MEMORY_ADVICE, ONE_AT_A_TIME, is_out_of_memory

ROLES = ("detector", "matcher", "depth", "vqa", "video", "text", "embedder")


class ModelSet:
    """Backends by role, each loaded when it is first needed.

    A backend is used by one thread at a time; different roles run side by side.

    Args:
        loaders: role name to a function that returns the backend.
        max_bytes: what the weights of all loaded backends may take together; the backend
            that has not been used for longest goes first. None sets no bound; a single
            backend that is larger is loaded all the same, alone.
    """

    def __init__(
        self, loaders: Mapping[str, Callable[[], Any]], max_bytes: int | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self._loaders: dict[str, Callable[[], Any]] = {}
        self._loaded: OrderedDict[str, Any] = OrderedDict()  # least recently used first
        self._locks: dict[str, threading.RLock] = {}
        for role, loader in loaders.items():
            self.add(role, loader)

    def add(self, role: str, loader: Callable[[], Any]) -> None:
        """Gives a role a backend, to be loaded when it is first needed."""
        self._loaders[role] = loader
        self._locks[role] = threading.RLock()

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self._loaders)

    def loaded(self) -> dict[str, Any]:
        """The backends that are loaded now."""
        return dict(self._loaded)

    def memory_bytes(self) -> int:
        """What the weights of the loaded backends take; those that do not say count 0."""
        return sum(_size(backend) for backend in list(self._loaded.values()))

    def get(self, role: str) -> Any:
        """The backend of a role.

        Raises:
            ToolError: this profile gives the role to no model.
            ModelError: it cannot be loaded.
        """
        if role not in self._loaders:
            raise ToolError(f"no model plays the role {role!r} in this profile")
        with self._locks[role]:
            if role not in self._loaded:
                with ONE_AT_A_TIME:
                    self._loaded[role] = self._loaders[role]()
                    self._make_room(role)
            self._loaded.move_to_end(role)
            return self._loaded[role]

    @contextmanager
    def using(self, role: str) -> Iterator[Any]:
        """The backend of a role, for this thread alone while the block runs.

        Raises:
            ModelError: a device ran out of memory; says what to change.
        """
        if role not in self._loaders:
            self.get(role)
        with self._locks[role]:
            backend = self.get(role)
            try:
                yield backend
            except Exception as error:
                if is_out_of_memory(error):
                    raise ModelError(f"{role}: {MEMORY_ADVICE}") from error
                raise

    def shared(self, role: str) -> Any:
        """A backend for another one to use: each of its methods waits for its turn.

        None where no model plays the role.
        """
        return _Shared(self, role) if role in self._loaders else None

    def load_all(self) -> None:
        """Loads every backend now (a server warms up; a test measures)."""
        for role in self._loaders:
            self.get(role)

    def load_in_background(self) -> threading.Thread:
        """Loads every backend in a thread of its own, which does not keep the process alive.

        A backend that cannot be loaded says so when it is first used.
        """

        def load() -> None:
            for role in self._loaders:
                with contextlib.suppress(Exception):
                    self.get(role)

        thread = threading.Thread(target=load, name="viper-preload", daemon=True)
        thread.start()
        return thread

    def _make_room(self, newest: str) -> None:
        """Lets go of backends that nobody uses at the moment until the bound is kept."""
        if self.max_bytes is None:
            return
        for role in list(self._loaded):
            if self.memory_bytes() <= self.max_bytes:
                return
            if role == newest or not _size(self._loaded[role]):
                continue
            lock = self._locks[role]
            if lock.acquire(blocking=False):
                try:
                    del self._loaded[role]
                finally:
                    lock.release()
                _release_memory()


class _Shared:
    """Stands for the backend of a role; loads it on first use, one thread at a time."""

    def __init__(self, models: ModelSet, role: str) -> None:
        self._models, self._role = models, role

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._models.get(self._role), name)
        if not callable(found):
            return found

        def under_lock(*args: Any, **kwargs: Any) -> Any:
            with self._models.using(self._role) as backend:
                return getattr(backend, name)(*args, **kwargs)

        return under_lock


def _size(backend: Any) -> int:
    return int(getattr(backend, "memory_bytes", 0))


def _release_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
