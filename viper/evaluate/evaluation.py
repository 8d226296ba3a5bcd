"""Description of an evaluation: samples, settings and folder.

An `Evaluation` resolves set, split and ids to samples, and these with the seeds to items.
`manifest_of` writes down everything that decides the answers: models and weights, the hash of the
prompts, the bank, what was learned, all settings. Runs are resumed and compared by it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from viper.data.registry import choose, data_set, samples_by_id
from viper.data.sample import DatasetSpec, Sample, kind_of
from viper.errors import DataError, UsageError, ViperError
from viper.evaluate.engines.sample_runner import Item, items
from viper.evaluate.runs.manifest import Manifest, SetDescription
from viper.models.media import media_from
from viper.reasoner import Reasoner, RunOptions
from viper.schema import to_json
from viper.strategies.demonstration_pool import LearnedExamples, without_pool

# Enough to see the pattern of a wrong list, on one line.
_NAMED_IDS = 3

# Stands for the queries in the hash of the prompt: the hash says whether the prompt's text changed,
# and must not depend on which samples were drawn.
_PROBE = "the probe that stands for every query"

# The smallest media of each kind: prompts depend on the kind and not on the pixels.
_PROBE_MEDIA: Mapping[str, Any] = {
    "image": np.zeros((2, 2, 3), np.uint8),
    "images": [np.zeros((2, 2, 3), np.uint8)] * 2,
    "video": np.zeros((2, 2, 2, 3), np.uint8),
}


@dataclass(frozen=True)
class Evaluation:
    """Description of an evaluation.

    Attributes:
        set_name: as :func:`viper.data.registry.data_set` takes it.
        spec: root, split and the seed that chooses samples.
        limit: largest number of samples; None takes all.
        ids: these samples, in this order; ``limit`` is then ignored.
        seeds: random seeds; every sample is answered once under each.
        options: settings of every run; task, options, seed and sample id come from the sample.
        deadline_s: time limit of one sample; None sets none.
        programs: programs by the kind of sample (:func:`viper.data.sample.kind_of`) that answer in
            place of written ones; samples of other kinds are left out.
    """

    set_name: str
    spec: DatasetSpec = field(default_factory=DatasetSpec)
    limit: int | None = None
    seeds: tuple[int, ...] = (0,)
    options: RunOptions = field(default_factory=RunOptions)
    deadline_s: float | None = None
    ids: tuple[str, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """Return the name of the data set's metric."""
        return data_set(self.set_name).metric

    def located(self) -> DatasetSpec:
        """Return ``spec`` with the split resolved and with the limit."""
        split = self.spec.split or data_set(self.set_name).splits[0]
        return replace(self.spec, split=split, limit=self.limit)

    def samples(self) -> list[Sample]:
        """Return the samples. The same evaluation always gives the same samples.

        Raises:
            DataError: files are missing or broken, there is no sample at all, or an id is of none.
        """
        spec = self.located()
        if not self.ids:
            samples = data_set(self.set_name).samples(spec)
            if self.programs:
                samples = [each for each in samples if kind_of(each.groups) in self.programs]
            if not samples:
                kinds = f" of kind {', '.join(self.programs)}" if self.programs else ""
                raise DataError(
                    f"{self.set_name} {spec.split}: no samples{kinds}; choose another split"
                )
            return choose(samples, self.limit, spec.seed)
        named = samples_by_id(self.set_name, spec, self.ids)
        missing = [sample_id for sample_id in self.ids if sample_id not in named]
        if missing:
            more = f" and {len(missing) - _NAMED_IDS} more" if len(missing) > _NAMED_IDS else ""
            raise DataError(
                f"{self.set_name} {spec.split} has no sample "
                f"{', '.join(missing[:_NAMED_IDS])}{more}; see viper data show"
            )
        return list(named.values())

    def items(self) -> list[Item]:
        """Return all items of the evaluation, in order."""
        return items(self.samples(), self.seeds)


def manifest_of(
    evaluation: Evaluation,
    samples: Sequence[Sample],
    reasoner: Reasoner,
    document: Mapping[str, Any],
    execution: Mapping[str, Any],
    like: Manifest | None = None,
) -> Manifest:
    """Return the manifest for ``run.json``. This loads the models to read their ids.

    Args:
        evaluation: what is evaluated.
        samples: its samples.
        reasoner: that will answer.
        document: the resolved profile as JSON values.
        execution: settings that change no answer: workers, engine, budget of the whole run.
        like: load no model, and take over from this manifest what only loaded models tell.
    """
    components, options = reasoner.components, evaluation.options
    settings = options.settings(components.settings)
    changed = settings.flat(settings.strategy)
    for name in ("seed", "api", "strategy"):
        del changed[name]
    bank = getattr(without_pool(components.examples), "items", None) or ()
    asked: str | None
    if evaluation.programs:  # no writer is asked
        programs = repr(sorted(evaluation.programs.items())).encode()
        asked = hashlib.sha256(programs).hexdigest()
    else:
        asked = like.prompt_hash if like else prompt_hash(reasoner, samples, options)
    bank_hash = hashlib.sha256(repr([to_json(item) for item in bank]).encode()).hexdigest()
    return Manifest(
        set=SetDescription.of(evaluation.set_name, evaluation.located(), samples),
        metric=evaluation.metric,
        seeds=evaluation.seeds,
        strategy=settings.strategy,
        api=settings.api,
        settings={**changed, "deadline_s": evaluation.deadline_s},
        profile=components.profile_name,
        document=document,
        models=like.models if like else model_ids(reasoner, writes=not evaluation.programs),
        prompt_hash=asked,
        bank_hash=bank_hash if bank else None,
        arguments=tuple(sys.argv),
        execution=execution,
        routines=components.library.stored(),
    )


def model_ids(reasoner: Reasoner, *, writes: bool = True) -> dict[str, str]:
    """Load every model that answers; return name and weight hash, language models first.

    The fingerprints of the soft prompts and demonstrations that the run uses come last.

    Args:
        writes: whether language models answer; without them programs are given.
    """
    components = reasoner.components
    models = components.toolbox.models
    llms = {role: llm for role, llm in components.models.items() if writes and role != "critic"}
    pools: dict[str, Any] = {"soft prompts": components.toolbox.soft_prompts}
    if isinstance(components.examples, LearnedExamples):
        pools["demonstrations"] = components.examples.pool
    learned = {name: getattr(pool, "fingerprint", "") for name, pool in pools.items()}
    return {
        **{role: llm.model_id for role, llm in llms.items()},
        **{role: str(models.trait(role, "model_id")) for role in models.roles},
        **{name: fingerprint for name, fingerprint in learned.items() if fingerprint},
    }


def prompt_hash(reasoner: Reasoner, samples: Sequence[Sample], options: RunOptions) -> str:
    """Return a hash of the prompts for one fixed query, asked as each kind of sample."""
    digest = hashlib.sha256()
    for task, media in sorted({(sample.task, sample.media) for sample in samples}):
        choices = ("first", "second") if task == "choice" else ()
        probe_options = options.changed(task=task, options=choices, sample_id=None, seed=0)
        digest.update(reasoner.prompt(_PROBE_MEDIA[media], _PROBE, probe_options).encode())
    return digest.hexdigest()


def read_ids(text: str) -> tuple[str, ...]:
    """Read sample ids from a file with one id per line, or from a text with commas.

    Raises:
        UsageError: there is none, or the file is no text.
    """
    path = Path(text)
    try:
        listed = path.read_text(encoding="utf-8").split("\n") if path.is_file() else text.split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text ({error})") from None
    ids = tuple(dict.fromkeys(sample_id.strip() for sample_id in listed if sample_id.strip()))
    if not ids:
        raise UsageError(f"--ids {text!r}: no sample ids; give id,id or a file with one a line")
    return ids


def missing_media(samples: Sequence[Sample], look_at: int = 3) -> Iterator[str]:
    """Yield one line for each of the first samples that cannot be read, before hours are spent."""
    for sample in samples[:look_at]:
        try:
            media_from(sample.load())
        except ViperError as error:
            yield str(error)
        except Exception as error:  # noqa: BLE001 (boundary: a set of somebody else's)
            problem = f"{sample.sample_id}: {type(error).__name__}: {error}"
            yield " ".join(problem.split())


def default_folder(evaluation: Evaluation, now: str) -> Path:
    """Return ``runs/SET-SPLIT-TIME`` in the working folder."""
    name = f"{Path(evaluation.set_name).stem}-{evaluation.located().split}-{now}"
    return Path("runs") / "".join(c if c.isalnum() or c in "-_.+" else "-" for c in name)
