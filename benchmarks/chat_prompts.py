"""Compare chat prompts with any model, also one that is asked by hand.

    python benchmarks/chat_prompts.py ask FOLDER [--set world] [--split val] [--limit 40]
    python benchmarks/chat_prompts.py score FOLDER

``ask`` writes the first chat prompt of each sample to ``FOLDER/NNN.prompt.txt``, with the tools of
the profile ``embedded``. A model, or a person, writes each reply to ``FOLDER/NNN.reply.txt``.
``score`` runs the programs of these replies with the same tools and prints how many are right, by
task, and how many failed. Nothing is corrected and nothing is asked again.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction
from viper.models.llm.scripted import ScriptedLLM
from viper.profiles.wiring import load_profile
from viper.reasoner import Reasoner


def reasoner_with(reply: str) -> Reasoner:
    """Return a reasoner with the embedded tools whose writer gives this reply."""
    parts = load_profile().components()
    settings = parts.settings.changed(
        prompt_style="chat", examples=8, trials=1, self_tune=False, fallback="none"
    )
    return Reasoner(
        replace(parts.with_models(llm=ScriptedLLM([reply])), settings=settings), preload=False
    )


def asked(sample: Sample) -> dict[str, object]:
    return {"task": sample.task, "options": sample.options}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("ask", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", default="world", dest="name")
    parser.add_argument("--split", default="val")
    parser.add_argument("--limit", type=int, default=40)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    chosen = data_set(given.name)
    samples = chosen.samples(DatasetSpec(split=given.split, limit=given.limit))
    right, kinds, count = Counter[str](), Counter[str](), Counter[str]()
    for number, sample in enumerate(samples):
        prompt_file = given.folder / f"{number:03}.prompt.txt"
        reply_file = given.folder / f"{number:03}.reply.txt"
        media = sample.load()
        if given.step == "ask":
            with reasoner_with("") as reasoner:
                prompt_file.write_text(reasoner.prompt(media, sample.text, **asked(sample)))
            continue
        with reasoner_with(reply_file.read_text()) as reasoner:
            result = reasoner.run(media, sample.text, **asked(sample))
        count[sample.task] += 1
        answer = None if result.answer is None else Prediction.of(result.answer)
        score = metric(chosen.metric).score(sample, answer).value
        right[sample.task] += int(score)
        if result.failure is not None:
            kinds[result.failure.kind] += 1
        print(number, sample.task, sample.text, "right" if score else "wrong", flush=True)
    for task, of in count.items():
        print(f"{task}: {right[task]} of {of} right")
    if count:
        print(f"all: {right.total()} of {count.total()} right; failed: {dict(kinds) or 'none'}")


if __name__ == "__main__":
    main()
