"""Runs of ``viper eval`` as training data: right programs, each under the prompt of its task.

A program is verified if it answers rightly about other scenes, where the set knows its scenes, and
else if it passed the checks of ``viper eval --verify``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from viper.data.sample import Sample
from viper.env.episode import Rules, is_verified, opening, with_call
from viper.env.tasks import EnvTask
from viper.evaluate.metrics import metric
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.schema import Trace
from viper.strategies.base import Components
from viper.strategies.exact import KnowsScenes


class TrainingData:
    """Records of a run for TRL's trainers and others that take conversations.

    ``{"prompt": [message], …, "id": sample, "files": names of its media}``.

    Args:
        samples: the samples of the run by id, as far as they can be read.
        unverified: take programs that are right but not verified, too.

    Attributes:
        left_out: number of results that gave no record, by reason; filled by iteration.
    """

    def __init__(
        self,
        store: RunStore,
        samples: Mapping[str, Sample],
        components: Components,
        unverified: bool = False,
    ) -> None:
        self._store, self._samples, self._components = store, samples, components
        self._metric = metric(store.manifest.metric)
        self._unverified = unverified
        self.left_out: Counter[str] = Counter()

    def sft(self) -> Iterator[dict[str, Any]]:
        """Yield ``prompt`` and ``completion``, each program of a sample once."""
        seen: set[tuple[str, str]] = set()
        for row, _, program in self._right():
            if (row.sample_id, program) in seen:
                self.left_out["the same program again"] += 1
                continue
            seen.add((row.sample_id, program))
            yield self._record(row, completion=program)

    def preference(self) -> Iterator[dict[str, Any]]:
        """Yield ``prompt``, ``chosen`` and ``rejected``: the latter failed, or answered wrongly."""
        for row, trace, program in self._right():
            wrong = [each.program for each in trace.trials if each.failure and each.program]
            for seed in self._store.manifest.seeds:
                other = self._store.row(row.sample_id, seed)
                if other is not None and other.score == 0 and other.program:
                    wrong.append(other.program)
            rejected = next((each for each in wrong if each != program), None)
            if rejected is None:
                self.left_out["no wrong program of the same sample"] += 1
                continue
            yield self._record(row, chosen=program, rejected=rejected)

    def _right(self) -> Iterator[tuple[SampleResult, Trace, str]]:
        for row in self._store.rows():
            trace = self._store.read_trace(row.sample_id, row.seed) if row.score == 1 else None
            reason = self._objection(row, trace)
            if reason or trace is None or trace.answering is None:
                self.left_out[reason] += 1
            else:
                yield row, trace, trace.answering.program

    def _objection(self, row: SampleResult, trace: Trace | None) -> str:
        """Return why a result gives no record; "" if it does."""
        if row.failure is not None or row.score != 1:
            return "wrong" if row.failure is None else "no answer"
        if trace is None or trace.answering is None or trace.turns or trace.path or trace.fallback:
            return "not answered by a single program"
        if self._unverified:
            return ""
        sample = self._samples.get(row.sample_id)
        if sample is not None and isinstance(sample.load, KnowsScenes):
            code = with_call(trace.answering.program, trace.query.media)
            task = EnvTask(sample, self._metric)
            return "" if is_verified(task, [code], self._components.sandbox) else "wrong elsewhere"
        if not trace.checks:
            return "not verified"
        return "" if all(check.passed for check in trace.checks) else "failed a check"

    def _record(self, row: SampleResult, **programs: str) -> dict[str, Any]:
        query = self._samples[row.sample_id].query
        text = opening(query, self._components, self._components.settings.api, Rules())
        asked = {"prompt": [{"role": "user", "content": text}]}
        said = {n: [{"role": "assistant", "content": code}] for n, code in programs.items()}
        origin = {"id": row.sample_id, "seed": row.seed, "files": list(row.files)}
        return {**asked, **said, **origin}
