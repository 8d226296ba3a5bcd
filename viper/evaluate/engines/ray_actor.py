"""Actor of ``--engine ray``: an engine that answers items by position.

Only positions and results are sent, or whole items where what there is to do depends on earlier
results. The actor reads the rest itself and returns the facts that decide the answers (for an
evaluation the manifest that it would write), so that the driver can compare configurations. Nothing
here imports Ray: the driver makes an actor of :class:`ReasonerActor`.
"""

from __future__ import annotations

import os
import pickle
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from viper.errors import ViperError
from viper.threads import COUNT, wait_passively

if TYPE_CHECKING:
    from viper.data.sample import Sample
    from viper.evaluate.engines.sample_runner import Engine, Item, ItemOutcome, Work
    from viper.evaluate.evaluation import Evaluation
    from viper.reasoner import Reasoner

# Seconds that :meth:`ReasonerActor.exchange` waits for a first outcome. The driver cannot hand out
# items to this actor meanwhile.
_ANSWER_WITHIN_S = 1.0


# Builds a reasoner in the actor's process, and returns it with the resolved profile as JSON values
# for the manifest. It can be pickled: it holds no model.
Recipe = Callable[[], "tuple[Reasoner, Mapping[str, Any]]"]


@dataclass(frozen=True)
class EvaluationWork:
    """The samples of an evaluation, for ``in_flight`` of them at once in an actor.

    Attributes:
        samples: reads them; by default those that the evaluation names.
    """

    recipe: Recipe
    evaluation: Evaluation
    in_flight: int
    samples: Callable[[], Sequence[Sample]] | None = None

    def __call__(self) -> Work:
        reasoner, document = self.recipe()
        from viper.evaluate.campaign import Campaign

        samples = (self.samples or self.evaluation.samples)()
        campaign = Campaign.of(self.evaluation, samples, reasoner, document, {})
        return campaign.work(self.in_flight)


@dataclass(frozen=True)
class ActorSettings:
    """Settings that every actor gets when it is created.

    Attributes:
        folder: working folder of the driver. If it exists, an actor changes to it, so that
            relative paths mean the same.
        work: can be pickled: it holds no model.
        threads: number of threads for its models.
        sees_gpus: False hides the node's GPUs.
    """

    work: Callable[[], Work]
    folder: str
    threads: int
    sees_gpus: bool


@dataclass(frozen=True)
class Ready:
    """Reply of an actor that can answer, with the facts of its :class:`Work`."""

    node: str
    pid: int
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class StartFailure:
    """Reply of an actor that cannot begin, for a reason that a retry would not change."""

    node: str
    message: str
    exit_code: int


class ReasonerActor:
    """Actor with one engine. The driver calls :meth:`begin`, then :meth:`exchange` repeatedly."""

    def __init__(self, settings: ActorSettings) -> None:
        self._settings = settings
        self._todo: SimpleQueue[Item | None] = SimpleQueue()
        self._done: SimpleQueue[ItemOutcome | BaseException] = SimpleQueue()
        self._stop = threading.Event()
        self._open: dict[int, Item] = {}
        self._work: Work | None = None

    def begin(self) -> Ready | StartFailure:
        """Read the samples, load the models and start to wait for positions."""
        settings = self._settings
        # folder, threads and devices are set before heavy packages are imported
        if Path(settings.folder).is_dir():
            os.chdir(settings.folder)
        os.environ[COUNT] = str(settings.threads)  # Ray has set it to the actor's share
        wait_passively()
        if not settings.sees_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        try:
            self._work = work = settings.work()
            threading.Thread(target=self._pump, args=(work.engine,), daemon=True).start()
            return Ready(platform.node(), os.getpid(), work.facts)
        except ViperError as error:
            return StartFailure(platform.node(), str(error), error.exit_code)

    def exchange(self, given: Sequence[int | Item]) -> list[bytes]:
        """Accept more items, or positions, and return the outcomes that are ready, each pickled.

        Returns at once when something is done, after a second at the latest.
        """
        assert self._work is not None
        for each in given:
            item = self._work.items[each] if isinstance(each, int) else each
            self._open[item.position] = item
            self._todo.put(item)
        packed: list[bytes] = []
        with suppress(Empty):
            while self._open:
                done = self._done.get(timeout=0.0 if packed else _ANSWER_WITHIN_S)
                if isinstance(done, BaseException):
                    raise done
                packed.append(self._pack(done, self._open.pop(done.position)))
        return packed

    def close(self) -> None:
        """Stop the threads and the sandbox's processes."""
        self._stop.set()
        self._todo.put(None)
        if self._work is not None:
            self._work.close()

    def _pump(self, engine: Engine) -> None:
        try:
            for done in engine.run(iter(self._todo.get, None), self._stop):
                self._done.put(done)
        except BaseException as error:  # noqa: BLE001 - raised again in exchange
            self._done.put(error)

    def _pack(self, done: ItemOutcome, item: Item) -> bytes:
        try:
            return pickle.dumps(done)
        except Exception as error:  # noqa: BLE001 (boundary: one outcome must not end the others)
            from viper.evaluate.engines.sample_runner import gave_up
            from viper.schema import Failure

            failure = Failure("internal", f"the outcome cannot be sent: {error}")
            return pickle.dumps(gave_up(item, failure, done.row.seconds))
