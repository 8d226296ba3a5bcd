"""The world's own tasks: canonical programs with perfect tools, and with a profile's.

    python benchmarks/world_tasks.py [--samples 50] [--seed 1] [--split val] [--profile embedded]
                                     [--sets SET:PART …] [--writer]

For each set the score of its metric: with perfect tools it says whether programs and truths agree
(1 is expected), with the profile's what its models leave of that. Edits are judged by their scenes;
replacements need an inpainter and count as wrong without one, so the operations are also printed
apart. ``--writer`` has the profile's language model write the programs of ``world-reserved``
instead, and runs them with perfect tools: the share that is right is what it reads rightly.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from viper import Reasoner, load_profile
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.evaluate.intervals import mean
from viper.evaluate.metrics import metric
from viper.evaluate.metrics.editing import NeedsEditJudge
from viper.evaluate.sample_result import Prediction
from viper.models.media import Media
from viper.reasoner import RunOptions
from viper.schema import Answer
from viper_lab.datasets.tasks import WorldTask, task_sample
from viper_lab.scores.scene_judge import SceneJudge
from viper_lab.world.perfect import answer_perfectly
from viper_lab.world.queries.task_sample import TaskSample
from viper_lab.world.scene import RenderedScene

SETS = (
    *("world-pairs:known", "world-pairs:reserved", "world-tag:known", "world-tag:reserved"),
    *("world-edit:known", "world-edit:reserved", "world-reserved:new", "world-reserved:old"),
)


Scenes = list[RenderedScene]


@dataclass(frozen=True)
class Bench:
    """What is measured with: the reasoner of a profile, and the command line."""

    reasoner: Reasoner
    options: argparse.Namespace

    def samples(self, name: str) -> Iterator[tuple[TaskSample, Sample]]:
        found, _, part = name.partition(":")
        wanted = data_set(found)
        assert isinstance(wanted, WorldTask)
        split = f"{self.options.split}:{part}"
        spec = DatasetSpec(None, split, self.options.seed, self.options.samples)
        for sample in wanted.task_samples(spec):
            yield sample, task_sample(sample)

    def measure(self, name: str) -> None:
        judge: Any = metric(data_set(name.partition(":")[0]).metric)
        if isinstance(judge, NeedsEditJudge):
            judge = judge.with_judge(SceneJudge.of)
        scores: dict[str, list[float]] = defaultdict(list)
        for sample, asked in self.samples(name):
            scenes = [place.rendered() for place in sample.places]
            columns = {"perfect": self._perfect, "profile": self._profile}
            if self.options.writer:
                columns = {"written": self._written}
            for column, answer in columns.items():
                value = judge.score(asked, answer(sample, scenes)).value
                scores[column].append(value)
                scores[f"{column} {sample.query_type}"].append(value)
                if value < 1 and column != "profile":
                    print(f"    {column} {value:.2f} {asked.sample_id} {sample.text}", flush=True)
        for column, values in scores.items():
            one = mean(values)
            interval = f"[{one.low:.3f}, {one.high:.3f}] of {one.n}"
            print(f"{name:22} {column:26} {one.value:.3f} {interval}", flush=True)

    def _perfect(
        self, sample: TaskSample, scenes: Scenes, program: str | None = None
    ) -> Prediction | None:
        sandbox = self.reasoner.components.sandbox
        found, media = answer_perfectly(program or sample.program, sample.query, scenes, sandbox)
        return _seen(found, media) if isinstance(found, Answer) else None

    def _profile(self, sample: TaskSample, scenes: Scenes) -> Prediction | None:
        pictures = [scene.image for scene in scenes]
        options = RunOptions(task=sample.task, api=sample.api)
        result = self.reasoner.execute(sample.program, pictures, sample.text, options)
        return None if result.answer is None else _seen(result.answer, result.media)

    def _written(self, sample: TaskSample, scenes: Scenes) -> Prediction | None:
        pictures = [scene.image for scene in scenes]
        options = RunOptions(task=sample.task, trials=1, self_tune=False)
        result = self.reasoner.run(pictures, sample.text, options)
        return None if result.program is None else self._perfect(sample, scenes, result.program)


def _seen(answer: Answer, media: Media) -> Prediction:
    found = Prediction.of(answer)
    if answer.kind != "image":
        return found
    return replace(found, picture=media.edits.picture(answer.value["picture"]).pixels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", default="val")
    parser.add_argument("--profile", default="embedded")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--writer", action="store_true")
    options = parser.parse_args()
    with Reasoner(load_profile(options.profile), preload=False) as reasoner:
        for name in options.sets:
            Bench(reasoner, options).measure(name)


if __name__ == "__main__":
    main()
