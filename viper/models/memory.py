"""One memory budget for all models of a profile: room is made before a model loads.

Language models and vision models count alike. :meth:`MemoryBudget.run` holds a backend while it
works; :meth:`MemoryBudget.backend` loads it if necessary, after idle ones were unloaded, the least
recently used first. They load again at their next use. If a device's memory runs out in spite of
the budget, idle models are unloaded and the work is done once more.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from viper.errors import MemoryFullError
from viper.models.loading import ONE_AT_A_TIME, is_out_of_memory
from viper.steps import step

Result = TypeVar("Result")

# For backends that any number of threads use at once.
_NO_TURNS = nullcontext()


class MemoryBudget:
    """Counts the weights of models together and keeps them within a bound; thread-safe.

    Args:
        max_bytes: limit on all loaded weights; None sets no limit. Weights above the limit are
            loaded anyway, alone.
        advice: returns a clause for the message if memory runs out although all idle models were
            unloaded, such as the name of a smaller profile.
    """

    def __init__(self, max_bytes: int | None = None, advice: Callable[[], str] = str) -> None:
        self.max_bytes, self._advice = max_bytes, advice
        self._all: weakref.WeakSet[Weights] = weakref.WeakSet()
        self._state = threading.Lock()
        self._clock = itertools.count(1)

    def weights(self, key: Hashable = None, estimate: Callable[[], int] = int) -> Weights:
        """Return weights that count in this budget.

        Args:
            key: equal for all users of one model, which get the same weights; None for new ones.
            estimate: returns their size in bytes before they are loaded; 0 if it is unknown.
        """
        shared = (each for each in self._all if key is not None and each.key == key)
        weights = next(shared, None) or Weights(self, key, estimate)
        self._all.add(weights)
        return weights

    def used_bytes(self) -> int:
        """Return the size of all loaded weights; backends that do not state it count 0."""
        return sum(weights.size for weights in self._all)

    def backend(self, weights: Weights, name: Hashable, make: Callable[[], Any]) -> Any:
        """Return a backend on weights; the first call makes it, after it made room for it.

        Raises:
            MemoryFullError: it does not fit, even alone.
        """
        value = self._known(weights, name)
        if value is not None:
            return value
        wait = step(f"loading the {name if isinstance(name, str) else 'language model'}")
        with ONE_AT_A_TIME, wait:
            value = self._known(weights, name)
            if value is not None:
                return value
            if not weights.size:
                self._make_room(weights.estimate(), weights)
            try:
                value = self._retrying(weights, make)
                with self._state:
                    weights.backends[name] = value
                    weights.used = next(self._clock)
            finally:  # a shared model may be loaded even if this backend failed
                self._make_room(0, weights)
            return value

    def run(
        self,
        weights: Weights,
        name: Hashable,
        make: Callable[[], Any],
        work: Callable[[Any], Result],
        turns: AbstractContextManager[Any] = _NO_TURNS,
    ) -> Result:
        """Return ``work(backend)``; the backend stays loaded meanwhile.

        Args:
            work: called again if memory runs out and idle models could be unloaded.
            turns: held while the backend is loaded and used.

        Raises:
            MemoryFullError: memory ran out in both attempts, or nothing was idle.
        """

        def attempt() -> Result:
            with turns, self.holding(weights, name, make) as backend:
                return work(backend)

        return self._retrying(weights, attempt)

    @contextmanager
    def holding(self, weights: Weights, name: Hashable, make: Callable[[], Any]) -> Iterator[Any]:
        """Keep a backend loaded while the block runs."""
        while True:
            value = self.backend(weights, name, make)
            with self._state:
                if weights.backends.get(name) is value:  # else unloaded in between
                    weights.holds += 1
                    break
        try:
            yield value
        finally:
            with self._state:
                weights.holds -= 1

    def _retrying(self, but: Weights, action: Callable[[], Result]) -> Result:
        """Return the result of an action; if memory runs out, unload the others and try again."""
        for is_last in (False, True):
            try:
                return action()
            except Exception as error:
                if not is_out_of_memory(error) or getattr(error, "final", False):
                    raise
                idle = [weights for weights in list(self._all) if weights is not but]
                if is_last or not sum(map(self._unload, idle)):
                    raise MemoryFullError(f"{error}{self._advice()}", final=True) from error
        raise AssertionError("unreachable")

    def _known(self, weights: Weights, name: Hashable) -> Any:
        with self._state:
            if name in weights.backends:
                weights.used = next(self._clock)
            return weights.backends.get(name)

    def _make_room(self, needed: int, newest: Weights) -> None:
        """Unload idle weights until the needed bytes are free within the limit."""
        if self.max_bytes is None:
            return
        for weights in sorted(self._all, key=lambda each: each.used):
            if self.used_bytes() + needed <= self.max_bytes:
                return
            if weights is not newest:
                self._unload(weights)

    def _unload(self, weights: Weights) -> bool:
        """Unload weights that nobody uses at the moment; return whether they were unloaded."""
        with self._state:
            if weights.holds or not weights.size:
                return False
            weights.model, backends = None, list(weights.backends.values())
            weights.backends.clear()
        del backends
        gc.collect()
        torch = sys.modules.get("torch")
        for device in (torch.cuda, torch.mps) if torch is not None else ():
            if device.is_available():
                device.empty_cache()
        return True


@dataclass(eq=False)
class Weights:
    """Weights of one model, with the backends on them: loaded, counted and unloaded as one.

    Attributes:
        key: common to the users of a shared model; None if it serves one backend alone.
        model: the model behind several backends; None if it is not loaded, or they share none.
        backends: the loaded ones by role.
        used: time of the last use as a counter; larger is later.
        holds: blocks that use them now; they are not unloaded meanwhile.
        turns: held by the thread that uses a backend which serves one caller at a time.
    """

    budget: MemoryBudget
    key: Hashable
    estimate: Callable[[], int]
    model: Any = None
    backends: dict[Hashable, Any] = field(default_factory=dict)
    used: int = 0
    holds: int = 0
    turns: threading.RLock = field(default_factory=threading.RLock)

    @property
    def size(self) -> int:
        """Return the size in bytes; backends on one model all state the model's size."""
        backends = [self.model, *self.backends.values()]
        return max(int(getattr(backend, "memory_bytes", 0)) for backend in backends)

    def shared_model(self, load: Callable[[], Any]) -> Any:
        """Return the model behind several backends; the first call loads it."""
        if self.model is None:
            self.model = load()
        return self.model
