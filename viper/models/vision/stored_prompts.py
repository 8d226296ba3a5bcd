"""Learned soft prompt with its evidence, and its entry in a versioned store.

Stored prompts are untrusted, so shapes, dtypes and values are checked on reading.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass, field

import numpy as np

from viper.errors import StoreError, UsageError
from viper.models.vision.soft_prompts import WITHOUT_CONCEPT, SoftPrompt
from viper.record import RecordError, record_from_json
from viper.schema import to_json
from viper.storage.versioned import Arrays, Entry

MOST_VECTORS, MOST_WIDTH, MOST_FEATURE = 4_096, 8_192, 65_536
LONGEST_CONCEPT = 200

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


def entry_of(tool: str, concept: str, evidence: Evidence, prompt: SoftPrompt, file: str) -> Entry:
    """Return the store's entry of a prompt whose arrays are stored under that name."""
    identity = json.dumps([tool, concept, evidence.model_id, file])
    record = {
        "tool": tool,
        "concept": concept,
        "evidence": to_json(evidence),
        "feature_size": int(prompt.feature.shape[0]),
        "shape": [int(size) for size in prompt.vectors.shape],
    }
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return Entry(key, prompt_kind(tool, concept), record, file)


def prompt_from_entry(entry: Entry) -> StoredPrompt:
    """Build the prompt from an entry of a versioned store.

    Raises:
        StoreError: the entry is not a valid prompt.
    """
    try:
        prompt = record_from_json(
            StoredPrompt, {**entry.record, "id": entry.key, "born": entry.created_in}
        )
        check_place(prompt.tool, prompt.concept)
    except (RecordError, TypeError, UsageError) as error:
        raise StoreError(f"prompt {entry.key}: no record of a soft prompt ({error})") from None
    if min(prompt.shape) <= 0 or entry.kind != prompt_kind(prompt.tool, prompt.concept):
        raise StoreError(
            f"prompt {entry.key}: shape {prompt.shape} or topic {entry.kind!r} do not fit"
        )
    return prompt


def soft_prompt(stored: StoredPrompt, arrays: Arrays) -> SoftPrompt:
    """Build the prompt from its stored arrays.

    Raises:
        StoreError: the arrays do not match the record, or are not finite.
    """
    problem = _problem(arrays)
    if problem is None:
        sizes = (arrays[_FEATURE].shape[0], arrays[_VECTORS].shape)
        if sizes != (stored.feature_size, stored.shape):
            problem = f"has sizes {sizes}, its record says {(stored.feature_size, stored.shape)}"
    if problem is not None:
        raise StoreError(f"prompt {stored.id} of {stored.tool}: its file {problem}; restore a copy")
    return SoftPrompt(arrays[_FEATURE], arrays[_VECTORS])


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
