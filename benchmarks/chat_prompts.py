"""Compare chat prompts with any model, also one that is asked by hand.

    python benchmarks/chat_prompts.py ask FOLDER [--set world] [--split val] [--limit 40]
    python benchmarks/chat_prompts.py score FOLDER
    python benchmarks/chat_prompts.py score benchmarks/data/chat-replies-short.jsonl

``ask`` writes the first chat prompt of each sample with the tools of the profile ``embedded``. What
prompts share stands in a file of its own: ``FOLDER/systemN.txt`` holds a system message and
``FOLDER/beginningN.txt`` the beginning of the user's messages of one task, "" for some styles.
``FOLDER/NNN.prompt.txt`` names both in its first line and holds the rest. Pictures are not shown. A
model, or a person, writes each reply to ``FOLDER/NNN.reply.txt``.
``score`` runs the programs of these replies with the same tools and prints how many are right, by
task, and how many failed. Nothing is corrected and nothing is asked again. It also takes a file
with a reply as JSON in each line: ``chat-replies-short.jsonl`` answers 60 prompts with
``api_text = "short"``, ``chat-replies-whole.jsonl`` those that printed every example. A language
model wrote them that saw the prompts alone, and neither pictures nor right answers.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from os.path import commonprefix
from pathlib import Path

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction
from viper.models.llm.scripted import ScriptedLLM
from viper.profiles.wiring import load_profile
from viper.reasoner import Reasoner

# The line before the user's message in a prompt as text.
USER = "\n[user]\n"


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


def write(folder: Path, prompts: Mapping[Path, tuple[str, str, str]]) -> None:
    """Write prompts, given as task, system message and user's message by the file of the rest."""
    by_task, names = defaultdict[str, list[str]](list), dict[str, str]()
    for task, _, user in prompts.values():
        by_task[task].append(user)
    for file, (task, system, user) in prompts.items():
        # Whole sections alone; the query is another one in each prompt.
        beginning = commonprefix(by_task[task]).rpartition("\n## ")[0]
        shared = {"system": system, "beginning": beginning}
        told = [
            f"{kind} {names.setdefault(text, f'{kind}{len(names) + 1}.txt')}"
            for kind, text in shared.items()
            if text
        ]
        file.write_text(f"({', '.join(told)})\n{USER}{user[len(beginning) :].lstrip()}\n")
    for text, name in names.items():
        (folder / name).write_text(f"{text}\n")
    tokens = sum(len(system) + len(user) for _, system, user in prompts.values()) / 4 / len(prompts)
    messages = len({system for _, system, _ in prompts.values()})
    print(f"{len(prompts)} prompts of {tokens:,.0f} tokens, {messages} system messages")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("ask", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", default="world", dest="name")
    parser.add_argument("--split", default="val")
    parser.add_argument("--limit", type=int, default=40)
    given = parser.parse_args()
    replies = []
    if given.folder.suffix == ".jsonl":
        replies = [json.loads(line) for line in given.folder.read_text().splitlines()]
    elif given.step == "score":
        replies = [path.read_text() for path in sorted(given.folder.glob("*.reply.txt"))]
    else:
        given.folder.mkdir(parents=True, exist_ok=True)
    chosen = data_set(given.name)
    written = len(replies)
    samples = chosen.samples(DatasetSpec(split=given.split, limit=written or given.limit))
    prompts: dict[Path, tuple[str, str, str]] = {}
    right, kinds, count = Counter[str](), Counter[str](), Counter[str]()
    for number, sample in enumerate(samples):
        prompt_file = given.folder / f"{number:03}.prompt.txt"
        media = sample.load()
        if given.step == "ask":
            with reasoner_with("") as reasoner:
                system, user = reasoner.prompt(media, sample.text, **asked(sample)).split(USER, 1)
            prompts[prompt_file] = sample.task, system, user
            continue
        with reasoner_with(replies[number]) as reasoner:
            result = reasoner.run(media, sample.text, **asked(sample))
        count[sample.task] += 1
        answer = None if result.answer is None else Prediction.of(result.answer)
        score = metric(chosen.metric).score(sample, answer).value
        right[sample.task] += int(score)
        if result.failure is not None:
            kinds[result.failure.kind] += 1
        print(number, sample.task, sample.text, "right" if score else "wrong", flush=True)
    if prompts:
        write(given.folder, prompts)
    for task, of in count.items():
        print(f"{task}: {right[task]} of {of} right")
    if count:
        print(f"all: {right.total()} of {count.total()} right; failed: {dict(kinds) or 'none'}")


if __name__ == "__main__":
    main()
