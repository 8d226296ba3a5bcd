"""The prompt pool: for every tool and concept the soft prompts that were learned, for good.

A prompt is learned from one instance and stands in the pool with that instance's feature; an input
gets the mean of a concept's prompts, weighted by how like their instances it is. Every update is
one whole version (:mod:`viper.storage.versioned`); any earlier one can be rolled back to.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1; its supplement, sec. 8. Differs: theirs lives in
memory; here prompts carry their evidence and the id of the model that they were trained for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from viper.errors import StoreError, UsageError
from viper.models.vision.roles import Floats
from viper.models.vision.soft_prompts import LEAST_ALIKE, NEAREST, SoftPrompt, mix, unit_features
from viper.storage.cache import ComputeCache
from viper.storage.versioned import VersionedStore
from viper.tuning.stored_prompts import (
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

FOLDER = "prompts"
"""Of the pool, in the state's folder."""

MOST_PROMPTS = 4_096
"""Of one concept; of a tool without concepts, all."""

MOST_BYTES = 1 << 30
"""That the prompts of one concept may take in memory."""

_CONCEPTS_KEPT = 512

_Known = tuple[tuple[SoftPrompt, ...], Floats | None]
"""The prompts of a concept, with their features as :func:`unit_features` has them."""


class PromptPool:
    """Learned prompts in a folder; safe to use from several threads and processes.

    Fulfils :class:`viper.models.vision.soft_prompts.SoftPromptSource`.

    Args:
        folder: made by the first prompt; where there is none the pool is empty.

    Attributes:
        store: its versions.
    """

    def __init__(self, folder: Path) -> None:
        self.store = VersionedStore(folder)
        self._read = ComputeCache(_CONCEPTS_KEPT, MOST_BYTES)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the pool's content for the records of runs that use it; "" if it is
        empty."""
        return self.store.fingerprint

    def add(
        self,
        tool: str,
        concept: str | None,
        learned: Sequence[tuple[SoftPrompt, Evidence]],
        note: str = "",
    ) -> list[str]:
        """Add prompts as one version, all of them or none, and return their ids.

        A prompt that is there already stays as it is, with the evidence it has now.

        Raises:
            UsageError: arrays or names that cannot be kept, sizes that differ from those of the
                concept's other prompts for the same model, or more prompts than a concept may have.
            StoreError: full disk, or a pool that cannot be written.
        """
        key = concept_key(tool, concept)
        check_place(tool, key)
        arrays = [arrays_of(prompt) for prompt, _ in learned]
        with self.store.update(note or f"learned {prompt_kind(tool, key)}") as change:
            stored_prompts = [
                prompt_from_entry(entry) for entry in change.entries(prompt_kind(tool, key))
            ]
            sizes = {one.evidence.model_id: (one.feature_size, one.shape) for one in stored_prompts}
            ids = []
            for (prompt, evidence), stored in zip(learned, arrays, strict=True):
                entry = entry_of(tool, key, evidence, prompt, change.store(stored))
                kept = prompt_from_entry(entry)
                size = (kept.feature_size, kept.shape)
                if sizes.setdefault(evidence.model_id, size) != size:
                    raise UsageError(
                        f"a soft prompt of sizes {size}; those of {prompt_kind(tool, key)} for "
                        f"{evidence.model_id} have {sizes[evidence.model_id]}"
                    )
                change.put(entry)
                ids.append(kept.id)
            count = len({one.id for one in stored_prompts} | set(ids))
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

        They stay in the earlier versions. Raises as :meth:`kept`.
        """
        gone = self.kept(tool, concept)
        if ids is not None:
            gone = [one for one in gone if one.id in ids]
        about = tool if concept is None else prompt_kind(tool, concept_key(tool, concept))
        if gone:
            with self.store.update(f"removed {len(gone)} of {about}") as change:
                for one in gone:
                    change.drop(one.id)
        return len(gone)

    def kept(self, tool: str | None = None, concept: str | None = None) -> list[StoredPrompt]:
        """Return the stored prompts without their arrays: all, a tool's, or a concept's.

        Raises:
            StoreError: a pool that cannot be read.
        """
        prompts = [prompt_from_entry(entry) for entry in self.store.entries()]
        if tool is not None:
            prompts = [one for one in prompts if one.tool == tool]
            if concept is not None:
                key = concept_key(tool, concept)
                prompts = [one for one in prompts if one.concept == key]
        return prompts

    def concepts(self, tool: str, model_id: str) -> frozenset[str]:
        """Return concepts as :class:`~viper.models.vision.soft_prompts.SoftPromptSource` does.

        Raises:
            StoreError: a pool that cannot be read.
        """
        key = ("concepts", tool, model_id, self.store.version)
        names: frozenset[str] = self._read.get(
            key,
            lambda: frozenset(
                one.concept for one in self.kept(tool) if one.evidence.model_id == model_id
            ),
        )[0]
        return names

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
        """Return the version as :class:`~viper.models.vision.soft_prompts.SoftPromptSource` does;
        0: never learned."""
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
        loaded: _Known = self._read.get(key, lambda: self._loaded(kind, model_id))[0]
        return loaded

    def _loaded(self, kind: str, model_id: str) -> _Known:
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
