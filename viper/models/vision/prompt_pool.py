"""The prompt pool: the learned soft prompts of every tool and concept, on disk.

A prompt is learned from one instance and stored with that instance's feature. An input gets the
mean of a concept's prompts, weighted by the similarity of the input to their instances. Every
update is one whole version (:mod:`viper.storage.versioned`), and any earlier one can be restored.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1; its supplement, sec. 8. Differs: the paper's pool is in
memory. Here prompts are stored with their evidence and the id of the model they were trained for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from viper.errors import StoreError, UsageError
from viper.models.vision.roles import Floats
from viper.models.vision.soft_prompts import LEAST_ALIKE, NEAREST, SoftPrompt, mix, unit_features
from viper.models.vision.stored_prompts import (
    Evidence,
    StoredPrompt,
    arrays_of,
    check_place,
    concept_key,
    entry_of,
    prompt_from_entry,
    prompt_kind,
    soft_prompt,
)
from viper.storage.cache import ComputeCache
from viper.storage.versioned import VersionedStore

# Name of the pool's folder in the state's folder.
FOLDER = "prompts"

# Most prompts of one concept, or of a tool without concepts.
MOST_PROMPTS = 4_096

# Most memory that the prompts of one concept may take.
MOST_BYTES = 1 << 30

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
        self,
        tool: str,
        concept: str | None,
        learned: Sequence[tuple[SoftPrompt, Evidence]],
        note: str = "",
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
        arrays = [arrays_of(prompt) for prompt, _ in learned]
        with self.store.update(note or f"learned {prompt_kind(tool, key)}") as change:
            stored_prompts = [
                prompt_from_entry(entry) for entry in change.entries(prompt_kind(tool, key))
            ]
            sizes = {
                stored_prompt.evidence.model_id: (stored_prompt.feature_size, stored_prompt.shape)
                for stored_prompt in stored_prompts
            }
            ids = []
            for (prompt, evidence), stored in zip(learned, arrays, strict=True):
                entry = entry_of(tool, key, evidence, prompt, change.store(stored))
                new = prompt_from_entry(entry)
                size = (new.feature_size, new.shape)
                if sizes.setdefault(evidence.model_id, size) != size:
                    raise UsageError(
                        f"a soft prompt of sizes {size}; those of {prompt_kind(tool, key)} for "
                        f"{evidence.model_id} have {sizes[evidence.model_id]}"
                    )
                change.put(entry)
                ids.append(new.id)
            count = len({stored_prompt.id for stored_prompt in stored_prompts} | set(ids))
            if count > MOST_PROMPTS:
                raise UsageError(
                    f"{count} prompts for {prompt_kind(tool, key)}; at most {MOST_PROMPTS} are "
                    "kept, remove some with: viper learn prompts remove"
                )
        return ids

    def remove(
        self, tool: str, concept: str | None = None, ids: Collection[str] | None = None
    ) -> int:
        """Remove the prompts of a tool, of one concept or with those ids, and return their number.

        Earlier versions keep them. Raises the errors of :meth:`kept`.
        """
        prompts = self.kept(tool, concept)
        if ids is not None:
            prompts = [prompt for prompt in prompts if prompt.id in ids]
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
        prompts = [prompt_from_entry(entry) for entry in self.store.entries()]
        if tool is not None:
            prompts = [prompt for prompt in prompts if prompt.tool == tool]
            if concept is not None:
                key = concept_key(tool, concept)
                prompts = [prompt for prompt in prompts if prompt.concept == key]
        return prompts

    def concepts(self, tool: str, model_id: str) -> frozenset[str]:
        """Return concepts as :class:`~viper.models.vision.soft_prompts.SoftPromptSource` does.

        Raises:
            StoreError: the pool cannot be read.
        """
        key = ("concepts", tool, model_id, self.store.version)
        return self._read.get(
            key,
            lambda: frozenset(
                prompt.concept for prompt in self.kept(tool) if prompt.evidence.model_id == model_id
            ),
        )[0]

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
            prompt = soft_prompt(stored, self.store.arrays(entry))
            taken += prompt.feature.nbytes + prompt.vectors.nbytes
            if taken > MOST_BYTES:
                raise StoreError(
                    f"{self.store.folder}: the prompts of {kind} take more than {MOST_BYTES} "
                    "bytes; remove some with: viper learn prompts remove"
                )
            prompts.append(prompt)
        return tuple(prompts), unit_features(prompts) if prompts else None
