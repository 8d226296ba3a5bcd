"""What a tool learns of the twelve reserved concepts: right answers before and after.

    python benchmarks/learn_tools.py loc [--concepts pyramid,pink] [--count 60] [--old 600]

Teaches the shipped tool each concept from at most 7 positives, all into one new pool, and asks
it the same questions before and after, on the validation split: about the concepts, and about old
ones, half of these where old and new stand together. Prints shares with 95% intervals over
scenes, the seconds that each concept took, and how many prompts were kept. With ``--wrong 0.3``
that share of the searched pictures is wrong; the prompts that were trained on them are counted.
Any seed but 0, 1 and 2 was not looked at while the tuners were made.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
from pathlib import Path

from viper.models.vision.prompt_pool import PromptPool
from viper.profiles import load_profile
from viper.tuning.soft_prompts.base import TunerOptions
from viper.tuning.tool_training import Sources, ToolTrainer
from viper_lab.scores.concepts.measurement import rows
from viper_lab.world.annotated import WorldStore
from viper_lab.world.found import WorldPictureSearch
from viper_lab.world.reserved import CONCEPTS


def main() -> None:
    given = _arguments()
    concepts = given.concepts.split(",") if given.concepts else list(CONCEPTS)
    questions = importlib.import_module(f"viper_lab.scores.concepts.{given.tool}")
    toolbox = load_profile("embedded").components().toolbox
    search = WorldPictureSearch(given.wrong, given.seed)
    options = TunerOptions(seed=given.seed, validate=not given.without_validation)
    with tempfile.TemporaryDirectory() as folder:
        pool = PromptPool(Path(folder))
        teacher = ToolTrainer(toolbox.models, pool, Sources(WorldStore(), search, given.positives))
        taught_toolbox = toolbox.with_soft_prompts(pool)

        def asked(which):
            return [
                one
                for concept in concepts
                for one in questions.about(
                    which, concept, split=given.split, count=given.count, seed=given.seed
                )
            ]

        def asked_old(which):
            return questions.about_old(
                which, concepts, split=given.split, count=given.old, seed=given.seed
            )

        before, before_old = asked(toolbox), asked_old(toolbox)
        wrong = {True: [0, 0], False: [0, 0]}
        for concept in concepts:
            started = time.perf_counter()
            if hasattr(questions, "training_data"):  # tools that learn from answered questions
                data = questions.training_data(toolbox, concept, given.positives, given.seed)
                taught = teacher.learn(given.tool, None, data, options)
            else:
                taught = teacher.teach(given.tool, concept, options)
            seconds = time.perf_counter() - started
            for one in taught.trained:
                if given.wrong:
                    name = one.evidence.trained_on[0]
                    is_wrong = search.is_wrong_name(name)
                    wrong[is_wrong][0] += one.kept
                    wrong[is_wrong][1] += 1
            print(
                f"{concept:12} {seconds:6.1f} s, kept {taught.kept} of {len(taught.trained)}",
                flush=True,
            )
        after, after_old = asked(taught_toolbox), asked_old(taught_toolbox)
    for title, olds, news in (
        ("reserved concepts", before, after),
        ("old concepts", before_old, after_old),
    ):
        print(f"\n{title}")
        for row in rows(olds, news):
            gain, shares = (
                row.gain.difference,
                [
                    f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"
                    for one in (row.before, row.after)
                ],
            )
            print(
                f"{row.kind:10} {shares[0]} -> {shares[1]}, gain {gain.value:+.3f} "
                f"[{gain.low:+.3f}, {gain.high:+.3f}], n = {gain.n}"
            )
    print()
    for concept in concepts:
        mine = [[one.right for one in part if one.concept == concept] for part in (before, after)]
        if mine[0]:
            print(
                f"{concept:12} {sum(mine[0]) / len(mine[0]):.2f} -> "
                f"{sum(mine[1]) / len(mine[1]):.2f}"
            )
    if given.wrong:
        print(
            f"prompts of wrong pictures kept {wrong[True][0]} of {wrong[True][1]}, "
            f"of good ones {wrong[False][0]} of {wrong[False][1]}"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=("loc", "match", "seg", "vqa", "replace"))
    parser.add_argument("--concepts", help="separated by commas; all twelve by default")
    parser.add_argument("--positives", type=int, default=7)
    parser.add_argument("--count", type=int, default=60, help="questions about each concept")
    parser.add_argument("--old", type=int, default=600, help="questions about old concepts")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--split", default="val")
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--without-validation", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
