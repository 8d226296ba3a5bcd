"""Models by role: loaded on first use, one lock each, within a memory budget.

A profile adds a loader for each role. :meth:`ModelSet.run` is the path of a tool call: it waits for
the turn of the role's backend and lets the memory budget load it and hold it meanwhile. Traits such
as a model's name are remembered, so that cache keys need no loaded model.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from viper.errors import ToolError
from viper.models.loading import memory_errors
from viper.models.memory import MemoryBudget, Weights
from viper.steps import step

Result = TypeVar("Result")

ROLES = (
    "detector", "matcher", "depth", "vqa", "segmenter", "inpainter", "faces", "ocr", "video",
    "text", "embedder", "image_search", "text_search",
)  # fmt: skip


# Roles that few programs use: never loaded before their first use.
ON_DEMAND = frozenset({"segmenter", "inpainter", "faces", "ocr", "image_search", "text_search"})


class ModelSet:
    """Backends by role, each loaded when it is first needed.

    One thread at a time uses a backend, unless its attribute ``concurrent`` is true, as for
    endpoints. Different roles run side by side, unless they share a model.

    Args:
        loaders: role name to a function that returns the backend.
        budget: memory budget of these and other models; None sets no limit.
    """

    def __init__(
        self, loaders: Mapping[str, Callable[[], Any]], budget: MemoryBudget | None = None
    ) -> None:
        self.budget = budget or MemoryBudget()
        self._loaders: dict[str, Callable[[], Any]] = {}
        self._weights: dict[str, Weights] = {}
        self._traits: dict[tuple[str, str], Any] = {}
        for role, loader in loaders.items():
            self.add(role, loader)

    def add(self, role: str, loader: Callable[[], Any], estimate: Callable[[], int] = int) -> None:
        """Give a role a backend with its own weights, loaded when it is first needed.

        Args:
            estimate: returns the size of the weights in bytes before they are loaded.
        """
        self.add_sharing(role, self.budget.weights(estimate=estimate), loader)

    def add_sharing(self, role: str, weights: Weights, loader: Callable[[], Any]) -> None:
        """Give a role a backend on weights that others use too; roles on equal ones take turns.

        Args:
            weights: of this set's budget; its memory counts once, and all backends on it are
                unloaded together.
            loader: returns the role's backend on the model, which it loads if necessary.
        """
        self._loaders[role], self._weights[role] = loader, weights

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
        backends = ((role, weights.backends) for role, weights in self._weights.items())
        return {role: loaded[role] for role, loaded in backends if role in loaded}

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
        return self.budget.backend(self._weights[role], role, self._loaders[role])

    def run(self, role: str, work: Callable[[Any], Result]) -> Result:
        """Return ``work(backend)`` with the backend of a role, for this thread alone unless it is
        concurrent. If memory runs out, idle models are unloaded and the work is done again.

        Raises:
            MemoryFullError: memory ran out although nothing else was loaded.
        """
        with step(f"asking the {role}"):
            if self.concurrent(role):
                return work(self.get(role))

            weights, named = self._weights[role], memory_errors(role)(work)
            return self.budget.run(weights, role, self._loaders[role], named, weights.turns)

    @contextmanager
    def using(self, role: str) -> Iterator[Any]:
        """Hold the backend of a role as :meth:`run` does, for a block that is not done again.

        Raises:
            MemoryFullError: a device ran out of memory; the message says what to change.
        """
        if self.concurrent(role):
            yield self.get(role)
            return
        weights = self._weights[role]
        held = self.budget.holding(weights, role, self._loaders[role])
        with weights.turns, held as backend, memory_errors(role):
            yield backend

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
