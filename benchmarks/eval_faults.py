"""Runs an evaluation whose models raise now and then, and compares it with an undisturbed one.

    python benchmarks/eval_faults.py [--samples 120] [--share 0.05] [--split val] [--seed 0]

The embedded models answer both times. The second time each of them, the language model too,
raises for a share of what it is asked, decided by the content (a picture, a phrase, a prompt),
and then for the whole batch that it stands in, as a network does. Claimed: the run ends with
every sample; those that no fault touched have the very answers of the undisturbed run; each
failure is counted under its kind. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viper.data.sample import DatasetSpec
from viper.errors import ModelError
from viper.evaluate.campaign import run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import SampleRunner, items
from viper.evaluate.evaluation import Evaluation, manifest_of
from viper.evaluate.metrics import metric
from viper.evaluate.reports.report import report
from viper.evaluate.runs.store import RunStore
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper.schema import to_json
from viper.tools.models import ModelSet

INJECTED = "an injected fault"


class Faulty:
    """Stands for a model; its methods raise for some contents.

    Args:
        model: the model.
        breaks: whether a fault is decided for a piece of content.
        error: what it raises then.
    """

    def __init__(
        self, model: Any, breaks: Callable[[bytes], bool], error: type[Exception] = RuntimeError
    ) -> None:
        self._model, self._breaks, self._error = model, breaks, error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if not callable(found) or name in ("count_tokens", "score"):
            return found

        def called(*args: Any, **named: Any) -> Any:
            if any(self._breaks(piece) for piece in contents(args)):
                raise self._error(INJECTED)
            return found(*args, **named)

        return called


def contents(value: Any) -> list[bytes]:
    """The texts and pictures in a call's arguments."""
    if isinstance(value, str):
        return [value.encode()]
    if isinstance(value, np.ndarray):
        return [value.tobytes()] if value.dtype == np.uint8 else []
    if isinstance(value, Sequence):
        return [piece for item in value for piece in contents(item)]
    return []


def decided(share: float, seed: int) -> Callable[[bytes], bool]:
    """By content alone."""

    def breaks(piece: bytes) -> bool:
        digest = hashlib.blake2b(piece, digest_size=4, key=str(seed).encode()).digest()
        return int.from_bytes(digest, "big") < share * 2**32

    return breaks


def with_faults(reasoner: Reasoner, breaks: Callable[[bytes], bool]) -> Reasoner:
    parts = reasoner.components
    healthy = parts.toolbox.models
    loaders = {role: lambda role=role: Faulty(healthy.get(role), breaks) for role in healthy.roles}
    parts.toolbox.models = ModelSet(loaders)
    return Reasoner(parts.with_models(llm=Faulty(parts.llm, breaks, ModelError)), preload=False)


def evaluated(
    evaluation: Evaluation, folder: Path, share: float, seed: int
) -> tuple[dict[str, tuple[Any, ...]], set[str], dict[str, Any]]:
    """Judged answers by sample, the samples that a fault touched, and the report."""
    profile = load_profile("embedded")
    samples = evaluation.samples()
    reasoner = Reasoner(profile, preload=False)
    if share:
        reasoner = with_faults(reasoner, decided(share, seed))
    answers, touched = {}, set()
    with reasoner:
        manifest = manifest_of(evaluation, samples, reasoner, to_json(profile.document), {})
        judge = metric(evaluation.metric)
        engine = LocalEngine(
            SampleRunner.with_cache(reasoner, judge, evaluation.options, 24), Bounds(16)
        )
        with RunStore.create(folder, manifest) as store:
            run(engine, items(samples, evaluation.seeds), store)
            for row in store.rows():
                answers[row.sample_id] = (row.score, row.prediction, row.program, row.failure)
                trace = json.dumps(store.trace(row.sample_id, row.seed))
                if INJECTED in trace or row.message == INJECTED:
                    touched.add(row.sample_id)
            return answers, touched, report(store)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=120)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--split", default="val")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    evaluation = Evaluation("world", DatasetSpec(split=given.split), limit=given.samples)
    with tempfile.TemporaryDirectory() as scratch:
        calm, _, _ = evaluated(evaluation, Path(scratch) / "calm", 0.0, given.seed)
        found, touched, made = evaluated(
            evaluation, Path(scratch) / "faulty", given.share, given.seed
        )
    changed = [name for name in calm if name not in touched and found.get(name) != calm[name]]
    failed = [name for name, answer in found.items() if answer[3] is not None]
    counted = sum(kind["count"] for kind in made["failures"].values())
    print(f"{len(found)} of {len(calm)} samples answered or failed; {len(touched)} met a fault")
    print(f"failures: { {kind: one['count'] for kind, one in made['failures'].items()} }")
    print(f"answers changed where no fault was met: {len(changed)} {changed or ''}")
    complete = len(found) == len(calm) and counted == len(failed)
    return 0 if complete and touched and not changed else 1


if __name__ == "__main__":
    sys.exit(main())
