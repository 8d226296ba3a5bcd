"""The models behind the roles: loaded on first use, one lock each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from viper.errors import ToolError

ROLES = ("detector", "matcher", "depth", "vqa", "video", "text")


class ModelSet:
    """Backends by role, each loaded when it is first needed.

    A backend is used by one thread at a time; different roles run side by side.

    Args:
        loaders: role name to a function that returns the backend.
    """

    def __init__(self, loaders: Mapping[str, Callable[[], Any]]) -> None:
        self._loaders = dict(loaders)
        self._loaded: dict[str, Any] = {}
        self._locks = {role: threading.RLock() for role in self._loaders}
        # Model libraries change global defaults while they load: one load at a time.
        self._loading = threading.Lock()

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self._loaders)

    def loaded(self) -> dict[str, Any]:
        """The backends loaded so far."""
        return dict(self._loaded)

    def get(self, role: str) -> Any:
        """The backend of a role.

        Raises:
            ToolError: this profile gives the role to no model.
        """
        if role not in self._loaders:
            raise ToolError(f"no model plays the role {role!r} in this profile")
        with self._locks[role]:
            if role not in self._loaded:
                with self._loading:
                    self._loaded[role] = self._loaders[role]()
            return self._loaded[role]

    @contextmanager
    def using(self, role: str) -> Iterator[Any]:
        """The backend of a role, for this thread alone while the block runs."""
        backend = self.get(role)
        with self._locks[role]:
            yield backend

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
