"""The prompt pool: the learned soft prompts of every tool and concept, on disk.

A prompt is learned from one instance and stored with that instance's feature. An input gets the
mean of a concept's prompts, weighted by the similarity of the input to their instances. Every
update is one whole version (:mod:`viper.storage.versioned`), and any earlier one can be restored.

A prompt becomes an entry of a versioned store (`PromptPool.add`) and is checked again when it is
read (`prompt_from_entry`), since stored files are untrusted. At inference a tool asks
`PromptPool.ensemble`, which loads the prompts of a concept once per version and mixes them.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1; its supplement, sec. 8. Differs: the paper's pool is in
memory. Here prompts are stored with their evidence and the id of the model they were trained for.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from viper.errors import StoreError, UsageError
from viper.models.vision.roles import Floats
from viper.models.vision.soft_prompts import (
    LEAST_ALIKE,
    NEAREST,
    WITHOUT_CONCEPT,
    SoftPrompt,
    mix,
    unit_features,
)
from viper.record import RecordError, record_from_json
from viper.schema import to_json
from viper.storage.cache import ComputeCache
from viper.storage.versioned import Arrays, Entry, VersionedStore

# Several times what the largest supported model needs (vectors of all layers, its width, its
# feature), so that only a damaged or foreign file is refused.
MOST_VECTORS, MOST_WIDTH, MOST_FEATURE = 4_096, 8_192, 65_536
# Concepts are a few words; a longer text is a query or a plan that was passed by mistake.
LONGEST_CONCEPT = 200

# Names of tools become parts of the store's kinds and of messages, so they are short and plain.
_TOOL = re.compile(r"[a-z][a-z0-9_]{0,31}")
_FEATURE, _VECTORS = "feature", "prompt"


@dataclass(frozen=True)
class Evidence:
    """Evidence for a prompt: its training and validation.

    Attributes:
        model_id: id of the model that the prompt was trained for. It is used with no other model.
        trained_on: names of the training instances in their source.
        validated_on: names of the held-out instances.
        before: share of the held-out instances that the tool got right without the prompt; None if
            it was not tested.
        after: the same share with the prompt.
        manner: how the instances were collected: ``inferred``, ``annotated`` or ``searched``.
        task: the query whose failure caused the training.
        steps: number of training steps.
        seed: random seed of training.
    """

    model_id: str
    trained_on: tuple[str, ...] = ()
    validated_on: tuple[str, ...] = ()
    before: float | None = field(default=None, metadata={"allow_inf_nan": False})
    after: float | None = field(default=None, metadata={"allow_inf_nan": False})
    manner: str = ""
    task: str = ""
    steps: int = 0
    seed: int = 0


@dataclass(frozen=True)
class StoredPrompt:
    """A prompt of a pool, without its arrays.

    Attributes:
        id: hash of the content.
        concept: key of the concept (:func:`concept_key`); "" for a tool without concepts.
        feature_size: D of :class:`viper.models.vision.soft_prompts.SoftPrompt`.
        shape: N and W of the same.
        born: version of the pool that added the prompt.
    """

    id: str
    tool: str
    concept: str
    evidence: Evidence
    feature_size: int = field(metadata={"strict": True, "gt": 0})
    shape: tuple[int, int]
    born: int = field(default=0, compare=False)


def concept_key(tool: str, concept: str | None) -> str:
    """Return the key of a concept, without case and spacing; "" for tools without concepts."""
    if tool in WITHOUT_CONCEPT or concept is None:
        return ""
    return " ".join(unicodedata.normalize("NFKC", concept).casefold().split())


def prompt_kind(tool: str, concept: str) -> str:
    """Return the store's kind for a tool's concept, spelled by :func:`concept_key`."""
    return f"{tool}/{concept}"


def check_place(tool: str, concept: str) -> None:
    """Check a tool and a concept.

    Raises:
        UsageError: one of them is invalid; says what was expected.
    """
    if not _TOOL.fullmatch(tool):
        raise UsageError(f"{tool!r} is no name of a tool; expected small letters, as seg or vqa")
    if bool(concept) == (tool in WITHOUT_CONCEPT):
        expected = "without a concept" if tool in WITHOUT_CONCEPT else "under a concept"
        raise UsageError(f"prompts of {tool} are kept {expected}; got {concept!r}")
    if len(concept) > LONGEST_CONCEPT or not concept.isprintable():
        raise UsageError(
            f"a concept of {len(concept)} characters; expected printable text of at most "
            f"{LONGEST_CONCEPT}"
        )


def arrays_of(prompt: SoftPrompt) -> Arrays:
    """Return the arrays of a prompt as they are stored.

    Raises:
        UsageError: an array has another dtype or number of dimensions, is too large, or has values
            that are not finite.
    """
    arrays = {_FEATURE: prompt.feature, _VECTORS: prompt.vectors}
    problem = _problem(arrays)
    if problem is not None:
        raise UsageError(f"a soft prompt {problem}")
    return arrays


def prompt_from_entry(entry: Entry) -> StoredPrompt:
    """Build the prompt from an entry of a versioned store.

    Raises:
        StoreError: the entry is not a valid prompt.
    """
    try:
        record = {**entry.record, "id": entry.key, "born": entry.created_in}
        prompt = record_from_json(StoredPrompt, record)
        check_place(prompt.tool, prompt.concept)
    except (RecordError, TypeError, UsageError) as error:
        raise StoreError(f"prompt {entry.key}: no record of a soft prompt ({error})") from None
    if min(prompt.shape) <= 0 or entry.kind != prompt_kind(prompt.tool, prompt.concept):
        raise StoreError(
            f"prompt {entry.key}: shape {prompt.shape} or topic {entry.kind!r} do not fit"
        )
    return prompt


def _problem(arrays: Arrays) -> str | None:
    if set(arrays) != {_FEATURE, _VECTORS}:
        return f"holds {sorted(arrays)[:5]}; expected {_FEATURE} and {_VECTORS}"
    for name, bounds in ((_FEATURE, (MOST_FEATURE,)), (_VECTORS, (MOST_VECTORS, MOST_WIDTH))):
        array = arrays[name]
        if array.dtype != np.float32 or array.ndim != len(bounds):
            return f"has a {name} of {array.dtype} {array.shape}; expected float32, {len(bounds)}-D"
        if not all(0 < size <= most for size, most in zip(array.shape, bounds, strict=True)):
            return f"has a {name} of shape {array.shape}; expected 1 to {bounds}"
        if not np.isfinite(array).all():
            return f"has a {name} with values that are not finite"
    return None


# Name of the pool's folder in the state's folder.
FOLDER = "prompts"

# Most prompts of one concept, or of a tool without concepts: a mixture compares an input with all
# of them at each call, which stays one small matrix product.
MOST_PROMPTS = 4_096

# Most memory that the prompts of one concept may take, so that a huge pool cannot displace models.
MOST_BYTES = 1 << 30

# More concepts than one program names, so that a running service reads each from disk once.
_CONCEPTS_KEPT = 512

# The prompts of a concept, and their features from :func:`unit_features`.
_Known = tuple[tuple[SoftPrompt, ...], Floats | None]


class PromptPool:
    """Learned prompts in a folder. Safe to use from several threads and processes.

    Implements :class:`viper.models.vision.soft_prompts.SoftPromptSource`.

    Args:
        folder: folder of the pool. The first prompt creates it; without it the pool is empty.

    Attributes:
        store: versioned store of the prompts.
    """

    def __init__(self, folder: Path) -> None:
        self.store = VersionedStore(folder)
        self._read = ComputeCache(_CONCEPTS_KEPT, MOST_BYTES)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the pool's content for the records of runs; "" if the pool is empty."""
        return self.store.fingerprint

    def add(
        self, tool: str, concept: str | None, learned: Sequence[tuple[SoftPrompt, Evidence]]
    ) -> list[str]:
        """Add prompts as one version, all or none, and return their ids.

        A prompt that the pool already has keeps its arrays and gets the new evidence.

        Raises:
            UsageError: arrays or names are invalid, sizes differ from those of the concept's other
                prompts for the same model, or the concept would have too many prompts.
            StoreError: the disk is full, or the pool cannot be written.
        """
        key = concept_key(tool, concept)
        check_place(tool, key)
        kind = prompt_kind(tool, key)
        arrays = [arrays_of(prompt) for prompt, _ in learned]
        with self.store.update(f"learned {kind}") as change:
            earlier = [prompt_from_entry(entry) for entry in change.entries(kind)]
            sizes = {each.evidence.model_id: (each.feature_size, each.shape) for each in earlier}
            ids = []
            for (prompt, evidence), stored in zip(learned, arrays, strict=True):
                file = change.store(stored)
                identity = json.dumps([tool, key, evidence.model_id, file])
                record = {
                    "tool": tool,
                    "concept": key,
                    "evidence": to_json(evidence),
                    "feature_size": int(prompt.feature.shape[0]),
                    "shape": [int(size) for size in prompt.vectors.shape],
                }
                id_ = hashlib.sha256(identity.encode()).hexdigest()[:12]
                entry = Entry(id_, kind, record, file)
                new = prompt_from_entry(entry)
                size = (new.feature_size, new.shape)
                if sizes.setdefault(evidence.model_id, size) != size:
                    raise UsageError(
                        f"a soft prompt of sizes {size}; those of {kind} for "
                        f"{evidence.model_id} have {sizes[evidence.model_id]}"
                    )
                change.put(entry)
                ids.append(new.id)
            count = len({each.id for each in earlier} | set(ids))
            if count > MOST_PROMPTS:
                raise UsageError(
                    f"{count} prompts for {kind}; at most {MOST_PROMPTS} are kept, remove some "
                    "with: viper learn prompts remove"
                )
        return ids

    def remove(
        self, tool: str, concept: str | None = None, ids: Collection[str] | None = None
    ) -> int:
        """Remove the prompts of a tool, of one concept or with those ids, and return their number.

        Earlier versions keep them. Raises the errors of :meth:`kept`.
        """
        kept = self.kept(tool, concept)
        prompts = [prompt for prompt in kept if ids is None or prompt.id in ids]
        name = tool if concept is None else prompt_kind(tool, concept_key(tool, concept))
        if prompts:
            with self.store.update(f"removed {len(prompts)} of {name}") as change:
                for prompt in prompts:
                    change.drop(prompt.id)
        return len(prompts)

    def kept(self, tool: str | None = None, concept: str | None = None) -> list[StoredPrompt]:
        """Return the stored prompts without their arrays: all, a tool's, or a concept's.

        Raises:
            StoreError: the pool cannot be read.
        """
        key = None if tool is None or concept is None else concept_key(tool, concept)
        prompts = map(prompt_from_entry, self.store.entries())
        return [p for p in prompts if tool in (None, p.tool) and key in (None, p.concept)]

    def concepts(self, tool: str, model_id: str) -> frozenset[str]:
        """Return concepts as :class:`~viper.models.vision.soft_prompts.SoftPromptSource` does.

        Raises:
            StoreError: the pool cannot be read.
        """

        def read() -> frozenset[str]:
            own = (each for each in self.kept(tool) if each.evidence.model_id == model_id)
            return frozenset(each.concept for each in own)

        return self._read.get(("concepts", tool, model_id, self.store.version), read)[0]

    def candidates(self, tool: str, concept: str | None, model_id: str) -> Sequence[SoftPrompt]:
        """Return candidates as :class:`~viper.models.vision.soft_prompts.SoftPromptSource` does.

        Raises:
            StoreError: a file that is missing, damaged, or too large.
        """
        return self._known(tool, concept, model_id)[0]

    def ensemble(
        self, tool: str, concept: str | None, feature: Floats, *, model_id: str
    ) -> Floats | None:
        """Return the ensemble as :class:`~viper.models.vision.soft_prompts.SoftPromptSource` does.

        Raises:
            StoreError: a file that is missing, damaged, or too large.
            ValueError: the feature has another shape than the stored ones.
        """
        prompts, units = self._known(tool, concept, model_id)
        return mix(prompts, feature, NEAREST.get(tool), units, LEAST_ALIKE.get(tool, 0.0))

    def version(self, tool: str, concept: str | None) -> int:
        """Return the version as :class:`~viper.models.vision.soft_prompts.SoftPromptSource` does.

        0 means that nothing was ever learned.
        """
        return self.store.changed(prompt_kind(tool, concept_key(tool, concept)))

    def close(self) -> None:
        """Close the files. A later use opens them again."""
        self.store.close()

    def _known(self, tool: str, concept: str | None, model_id: str) -> _Known:
        kind = prompt_kind(tool, concept_key(tool, concept))
        changed = self.store.changed(kind)
        if not changed:
            return (), None
        key = ("prompts", kind, model_id, changed)
        return self._read.get(key, lambda: self._load(kind, model_id))[0]

    def _load(self, kind: str, model_id: str) -> _Known:
        entries = [
            (stored, entry)
            for entry in self.store.entries(kind)
            if (stored := prompt_from_entry(entry)).evidence.model_id == model_id
        ]
        sizes = {(stored.feature_size, stored.shape) for stored, _ in entries}
        if len(sizes) > 1 or len(entries) > MOST_PROMPTS:
            raise StoreError(
                f"{self.store.folder}: {len(entries)} prompts of {len(sizes)} sizes for {kind}; "
                f"expected at most {MOST_PROMPTS} of one size; restore a copy"
            )
        taken, prompts = 0, []
        for stored, entry in entries:
            arrays = self.store.arrays(entry)
            problem, recorded = _problem(arrays), (stored.feature_size, stored.shape)
            if problem is None:
                found = (arrays[_FEATURE].shape[0], arrays[_VECTORS].shape)
                if found != recorded:
                    problem = f"has sizes {found}, its record says {recorded}"
            if problem is not None:
                raise StoreError(
                    f"prompt {stored.id} of {stored.tool}: its file {problem}; restore a copy"
                )
            prompt = SoftPrompt(arrays[_FEATURE], arrays[_VECTORS])
            taken += prompt.feature.nbytes + prompt.vectors.nbytes
            if taken > MOST_BYTES:
                raise StoreError(
                    f"{self.store.folder}: the prompts of {kind} take more than {MOST_BYTES} "
                    "bytes; remove some with: viper learn prompts remove"
                )
            prompts.append(prompt)
        return tuple(prompts), unit_features(prompts) if prompts else None
