"""Run that stores the questions of the demo, as an evaluation stores its samples."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viper.data.sample import Sample
from viper.errors import ModelError, UsageError, ViperError
from viper.evaluate.engines.sample_runner import ItemOutcome
from viper.evaluate.evaluation import model_ids
from viper.evaluate.runs.feedback import Feedback, add_feedback, answer_from
from viper.evaluate.runs.manifest import Manifest, SetDescription, samples_hash
from viper.evaluate.runs.samples import KEPT_SET, MEDIA, kept_sample
from viper.evaluate.runs.store import MANIFEST, RunStore, check_free, read_manifest
from viper.evaluate.sample_result import SampleResult
from viper.models.media import Media, media_from
from viper.reasoner import Reasoner
from viper.record import record_from_json
from viper.schema import Query, Trace
from viper.storage.files import file_errors
from viper.strategies.answers import resolve_task
from viper.strategies.settings import RunSettings
from viper.web.demo.session import DemoMedia

# Without labels, the score only says whether there was an answer.
METRIC = "answered"

SEED = 0


@dataclass(frozen=True)
class DemoQuestion:
    """Question of a visitor: media, query, and the options of a choice."""

    about: DemoMedia
    text: str
    options: tuple[str, ...] = ()


class DemoRun:
    """Store of questions and answers. Threads may share it.

    Attributes:
        store: store of the run's results.
    """

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self._last = max((number_of(sample_id) for sample_id, _ in store.done()), default=0)
        self._turn = threading.Lock()

    @classmethod
    def open(
        cls, folder: Path, reasoner: Reasoner, document: Mapping[str, Any], strategy: str
    ) -> DemoRun:
        """Open the run of a folder, new or continued. This loads the models for their ids.

        Args:
            document: the profile as JSON values.

        Raises:
            UsageError: the folder holds other files, or a run with other settings.
            StoreError: the folder cannot be written, or another process writes to it.
        """
        check_folder(folder)
        return cls(RunStore.resume(folder, _manifest(reasoner, document, strategy)))

    def numbered(self, question: DemoQuestion) -> tuple[int, Sample]:
        """Assign the next number to a question. Return the number and the question's sample."""
        with self._turn:
            self._last += 1
            number = self._last
        about = question.about
        with file_errors(about.path), about.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        return number, Sample(
            f"{KEPT_SET}-{number}",
            question.text,
            task="auto",
            media=about.media.kind,
            target=None,
            load=lambda: about.media,
            options=question.options,
            files=(f"{MEDIA}/{digest}{about.path.suffix}",),
        )

    def keep(self, done: ItemOutcome, sample: Sample, question: DemoQuestion) -> SampleResult:
        """Store an answered question and a copy of its picture. Return the result.

        Raises:
            StoreError: a file cannot be written.
        """
        target = self.store.folder / sample.files[0]
        with file_errors(target):
            target.parent.mkdir(exist_ok=True)
            if not target.exists():
                part = target.with_name(f".{sample.sample_id}.part")
                shutil.copyfile(question.about.path, part)
                part.replace(target)
        query = Query(sample.text, "auto", sample.media, sample.options)
        task = done.trace.task if done.trace else resolve_task(query)[0]
        result = replace(done.row, task=task)
        self.store.add(done.position, result, done.trace)
        return result

    def note(self, sample_id: str, answer: str, comment: str) -> None:
        """Store the right answer or a comment, as ``viper learn feedback`` does.

        Raises:
            UsageError: both are empty, or the answer does not fit the question's task.
            StoreError: the file cannot be written.
        """
        result = self.row(sample_id)
        right = answer_from(answer.strip(), result) if answer.strip() else None
        add_feedback(self.store.folder, Feedback(sample_id, SEED, right, comment.strip()))

    def row(self, sample_id: str) -> SampleResult:
        """Return the result of an answered question.

        Raises:
            UsageError: no answered question has this id.
        """
        result = self.store.row(sample_id, SEED)
        if result is None:
            raise UsageError(f"no question {sample_id!r} was answered here")
        return result

    def trace(self, sample_id: str) -> tuple[Trace, Media]:
        """Return the trace and the media of an answer.

        Raises:
            UsageError: there is no such answer.
            MediaError: its picture is missing.
        """
        result, values = self.row(sample_id), self.store.trace(sample_id, SEED)
        if values is None:
            raise UsageError(f"nothing ran for {sample_id!r}")
        return record_from_json(Trace, values), media_from(
            kept_sample(self.store.folder, result).load()
        )

    def close(self) -> None:
        """Close the store, so that another process can write to the folder."""
        self.store.close()


def check_folder(folder: Path) -> None:
    """Check that the demo's run may begin or continue in a folder.

    Raises:
        UsageError: the folder holds other files, or the run of a data set.
        StoreError: the folder cannot be read.
    """
    if not (folder / MANIFEST).is_file():
        check_free(folder)
    elif read_manifest(folder).set.name != KEPT_SET:
        raise UsageError(f"{folder}: holds the run of a data set; choose another --out")


def number_of(sample_id: str) -> int:
    """Return the number in the id of a question; 0 if it has none."""
    digits = sample_id.removeprefix(f"{KEPT_SET}-")
    return int(digits) if digits.isdecimal() else 0


def _manifest(reasoner: Reasoner, document: Mapping[str, Any], strategy: str) -> Manifest:
    components = reasoner.components
    settings: RunSettings = components.settings
    changed = {key: value for key, value in settings.flat().items() if key not in ("seed", "api")}
    return Manifest(
        set=SetDescription(KEPT_SET, None, SEED, None, 0, samples_hash(())),
        metric=METRIC,
        seeds=(SEED,),
        strategy=strategy,
        api=settings.api,
        settings=changed,
        profile=components.profile_name,
        document=document,
        models=model_ids(reasoner),
    )


class RunOpener:
    """Loads the models and opens the run in its own thread.

    Attributes:
        on_failure: called in the thread if opening fails.
    """

    def __init__(
        self,
        reasoner: Reasoner,
        folder: Path,
        document: Mapping[str, Any],
        strategy: str = "program",
    ) -> None:
        self.on_failure: Callable[[], None] | None = None
        self.strategy = strategy
        self._reasoner, self._folder, self._document = reasoner, folder, document
        self._started = threading.Lock()
        self._ended = threading.Event()
        self._run: DemoRun | None = None
        self._error: ViperError | None = None

    def start(self) -> None:
        """Start opening the run, once. Returns at once."""
        if not self._started.acquire(blocking=False):
            return
        threading.Thread(target=self._open, name="viper-demo-opening", daemon=True).start()

    def wait(self, timeout_s: float) -> DemoRun | None:
        """Return the run once models are loaded, or None if they are still loading after this time.

        Raises:
            ViperError: the models cannot be loaded, or the folder cannot be written.
        """
        self._ended.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return self._run

    def close(self) -> None:
        """Close the run, so that another process can write to its folder."""
        if self._run is not None:
            self._run.close()

    def _open(self) -> None:
        try:
            self._reasoner.components.load()
            self._run = DemoRun.open(self._folder, self._reasoner, self._document, self.strategy)
        except ViperError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - whatever a model library raises
            self._error = ModelError(f"a model cannot be loaded: {type(error).__name__}: {error}")
        self._ended.set()
        if self._error is not None and self.on_failure is not None:
            self.on_failure()
