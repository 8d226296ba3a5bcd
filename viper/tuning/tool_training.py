"""Training of one tool on one concept: collects data, trains prompts, keeps the validated ones.

`ToolTrainer.teach` collects data about a concept (`collect`), trains the tool on them or takes an
earlier training from memory (`_train`), and adds the prompts that passed to the pool.

Source: CLOVA (Gao et al. 2024), sec. 3.4, algorithm 1, the update of a tool.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from viper.errors import StoreError, UsageError
from viper.models.vision.prompt_pool import Evidence, PromptPool, arrays_of
from viper.models.vision.segmenter_sam import THINGS
from viper.models.vision.soft_prompts import SoftPrompt
from viper.record import record_from_json
from viper.schema import to_json
from viper.storage.files import read_plain_file, write_file
from viper.storage.versioned import MAX_FILE_BYTES
from viper.tools.models import ModelSet
from viper.tuning import training_data
from viper.tuning.data_collection import RELATED, collect_annotated, collect_pictures
from viper.tuning.soft_prompts.base import USUAL, Progress, TrainedPrompt, TunerOptions, tuner_for

# Tools that learn from annotated pictures, with their most pictures.
ANNOTATED: Mapping[str, int] = {"loc": training_data.LOC_SAMPLES, "seg": training_data.SEG_SAMPLES}

# Tools that learn from pictures of a search, with their most pictures.
SEARCHED: Mapping[str, int] = {"match": training_data.POSITIVES, "replace": training_data.POSITIVES}

# Most pictures of other concepts, for tools that need another number than of the concept.
#
# A matcher that saw few of them confuses many other things with the concept.
NEGATIVES: Mapping[str, int] = {"match": 80}

# Most related concepts, for tools that need another number than
# :data:`viper.tuning.data_collection.RELATED`.
RELATED_TO: Mapping[str, int] = {"match": 40}


# Share of held-out pictures that a tool must get right without a prompt to know a concept.
#
# A prompt for a known concept gains little and causes false positives.
KNOWN = 0.8


@dataclass(frozen=True)
class Sources:
    """Sources of data for concepts; None if a source is missing.

    Attributes:
        store: source of annotated pictures.
        search: search for pictures.
        positives: most pictures of a concept for every tool; None leaves it to the tool.
    """

    store: training_data.AnnotatedStore | None = None
    search: training_data.PictureSearch | None = None
    positives: int | None = None


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Result of training a tool.

    Attributes:
        trained: all trained prompts, including discarded ones.
        ids: ids of the prompts that the pool has now.
    """

    trained: Sequence[TrainedPrompt]
    ids: Sequence[str]

    @property
    def kept(self) -> int:
        return len(self.ids)


class Memory(Protocol):
    """Cache of trained prompts by tool, model, options and data; a dict is one."""

    def get(self, key: tuple[Any, ...], /) -> Sequence[TrainedPrompt] | None:
        """Return what was trained under this key, or None."""

    def __setitem__(self, key: tuple[Any, ...], value: Sequence[TrainedPrompt], /) -> None: ...


@dataclass(frozen=True)
class ToolTrainer:
    """Trains the tools of a profile and stores the prompts in a pool.

    Args:
        models: models whose backends are trained.
        pool: pool for the validated prompts.
        sources: sources of data.
        memory: cache of trained prompts, since training depends only on the data, the model and the
            options. None always trains.
    """

    models: ModelSet
    pool: PromptPool
    sources: Sources
    memory: Memory | None = None

    def teach(self, tool: str, concept: str, options: TunerOptions = USUAL) -> TrainingResult:
        """Collect data about a concept and train the tool on it.

        Raises:
            UsageError: there is no source of data for the tool, the source has no pictures, or the
                model takes no soft prompts.
            StoreError: the pool cannot be written.
        """
        return self.learn(tool, concept, self.collect(tool, concept, options.seed), options)

    def collect(self, tool: str, concept: str, seed: int = 0) -> training_data.Collected[Any]:
        """Collect the data for a concept. Raises the errors of :meth:`teach`."""
        sources, query = self.sources, training_data.ConceptQuery(concept)
        matcher = self.models.shared("matcher")
        data: training_data.Collected[Any] | None = None
        if tool in ANNOTATED and sources.store is not None:
            limit = min(ANNOTATED[tool], sources.positives or ANNOTATED[tool])
            data = collect_annotated(
                query, sources.store, limit=limit, negatives=limit, matcher=matcher, seed=seed
            )
        if tool in SEARCHED and sources.search is not None:
            limit = min(SEARCHED[tool], sources.positives or SEARCHED[tool])
            store = sources.store
            data = collect_pictures(
                query,
                sources.search,
                limit=limit,
                negatives=NEGATIVES.get(tool, limit),
                vocabulary=THINGS if store is None else tuple(store.vocabulary()),
                same=() if store is None else store.names_of(concept),
                matcher=matcher,
                related=RELATED_TO.get(tool, RELATED),
            )
        if data is None:
            raise UsageError(f"nothing to teach {tool} with: no source of data for it is given")
        if not data.positives:
            name = data.evidence.get("source", "the source")
            raise UsageError(f"{name} has no picture of {concept!r}; name another source of data")
        if tool == "match" and not data.negatives:
            raise UsageError(
                f"{data.evidence['source']} has no pictures of anything but {concept!r}, which "
                "match has to tell it from; add pictures of other things"
            )
        return data

    def learn(
        self,
        tool: str,
        concept: str | None,
        data: Any,
        options: TunerOptions = USUAL,
        on_progress: Progress | None = None,
        task: str = "",
    ) -> TrainingResult:
        """Train on the data and store all validated prompts as one version of the pool.

        Args:
            task: the query whose failure caused the training; part of the evidence.

        Raises:
            UsageError, StoreError: see :meth:`teach`.
            CancelledError: raised by ``on_progress``; the pool is unchanged.
        """
        tuner, memory, key = tuner_for(options.tuner_of(tool)), self.memory, None
        trained: Sequence[TrainedPrompt] | None = None
        if memory is not None and isinstance(data, training_data.Collected):
            evidence = json.dumps(data.evidence, sort_keys=True)
            model_id = self.models.trait(tuner.role, "model_id")
            key = (tool, model_id, options, data.concept, evidence)
            trained = memory.get(key)
        if trained is None:
            using = partial(self.models.using, tuner.role)
            trained = tuner(using, data, options, on_progress).trained()
            if memory is not None and key is not None:
                memory[key] = trained
        shares = [each.evidence.before for each in trained if each.evidence.before is not None]
        if concept is not None and options.validate and shares and fmean(shares) >= KNOWN:
            why = f"not needed: {fmean(shares):.2f} of the held-out pictures are right without it"
            trained = [each if each.why else replace(each, why=why) for each in trained]
        prompts = [
            (each.prompt, replace(each.evidence, task=task or each.evidence.task))
            for each in trained
            if each.kept
        ]
        ids = self.pool.add(tool, concept, prompts) if prompts else []
        return TrainingResult(tuple(trained), tuple(ids))


_RECORD = "record"
_SUFFIX = ".safetensors"


class TrainedFiles:
    """A :class:`Memory` that outlives the process, so that resumed learning trains nothing again.

    Each training has one file, named by a hash of everything it depends on and written in one step.
    A file that cannot be read counts as missing, and its training is repeated.

    Args:
        folder: folder used only by this cache; created if missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: tuple[Any, ...]) -> Sequence[TrainedPrompt] | None:
        try:
            return _decode(read_plain_file(self._path(key), MAX_FILE_BYTES), repr(key))
        except (StoreError, UsageError):
            return None

    def __setitem__(self, key: tuple[Any, ...], value: Sequence[TrainedPrompt]) -> None:
        """Store a training. Raises StoreError if the disk is full; an earlier file then stays."""
        write_file(self._path(key), _encode(value, repr(key)))

    def forget(self) -> None:
        """Delete all files, because the pool now holds what was trained."""
        for path in self.folder.glob(f"*{_SUFFIX}"):
            path.unlink(missing_ok=True)

    def _path(self, key: tuple[Any, ...]) -> Path:
        return self.folder / (hashlib.sha256(repr(key).encode()).hexdigest() + _SUFFIX)


def _encode(prompts: Sequence[TrainedPrompt], key: str) -> bytes:
    import numpy as np
    from safetensors.numpy import save

    arrays = {
        f"{at}.{name}": np.ascontiguousarray(array)
        for at, trained in enumerate(prompts)
        for name, array in arrays_of(trained.prompt).items()
    }
    lessons = [{"evidence": to_json(trained.evidence), "why": trained.why} for trained in prompts]
    record = {"key": key, "trained": lessons}
    arrays[_RECORD] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    return save(arrays)


def _decode(content: bytes, key: str) -> list[TrainedPrompt]:
    """Read the trained prompts of a file.

    Raises:
        StoreError: the file has another format or another key.
        UsageError: its arrays are not soft prompts.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        record = json.loads(arrays[_RECORD].tobytes())
        if record["key"] != key:
            raise StoreError("a lesson of another key")
        prompts = []
        for at, trained in enumerate(record["trained"]):
            prompt = SoftPrompt(arrays[f"{at}.feature"], arrays[f"{at}.prompt"])
            arrays_of(prompt)
            evidence = record_from_json(Evidence, trained["evidence"])
            prompts.append(TrainedPrompt(prompt, evidence, str(trained["why"])))
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise StoreError(f"no lesson: {error}") from None
    return prompts
