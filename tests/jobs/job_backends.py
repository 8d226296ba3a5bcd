"""A detector and a writer that a profile can name, and pictures whose first pixel they read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from viper.models.llm.messages import as_text
from viper.models.llm.protocol import Completion, Sampling
from viper.models.vision.roles import Detection
from viper.models.vision.vocabulary import Vocabulary

PROFILE = """
name = "shelf"
[llm]
backend = "tests.jobs.job_backends:Writer"
model = "writer"
[roles]
detector = { backend = "tests.jobs.job_backends:Lamps", model = "lamps" }
[sensitivities]
"detector.threshold" = { start = 0.5, step = 0.1, floor = 0.1 }
[run]
prompt_style = "compact"
[limits]
time_s = 10.0
"""
QUERY = "is it lit?"
BOX = "def execute_command(image):\n    return ImagePatch(image).find('jar')[0]\n"
JARS = (
    'def execute_command(image):\n    return "yes" if ImagePatch(image).exists("jar") else "no"\n'
)
LIT = JARS.replace("jar", "lamp")


class Writer:
    """Thinks of jars whatever is asked."""

    max_context = 100_000
    can_score = False
    asked = 0

    def __init__(self, name: str) -> None:
        self.model_id = "fake-writer"

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        Writer.asked += len(prompts)
        texts = [BOX if "the jar" in str(prompt) else JARS for prompt in prompts]
        # told of wrong answers, it thinks of lamps
        told = ["its answer is wrong" in as_text(prompt) for prompt in prompts]
        texts = [f"```python\n{LIT}```" if t else x for x, t in zip(texts, told, strict=True)]
        return [[Completion(text, 20, 20)] for text in texts]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        raise NotImplementedError

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class Lamps:
    """Finds as many lamps, jars and faint lamps as the first pixel says."""

    vocabulary = Vocabulary(("lamp", "jar"), {}, {})

    def __init__(self, name: str) -> None:
        self.model_id = "fake-lamps"

    def encode(self, images: Sequence[Any]) -> list[Any]:
        return [image[0, 0].tolist() for image in images]

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        lamps, jars, faint = encoding
        found = {
            "lamp": [_at(place, 0.9) for place in range(lamps)]
            + [_at(place + 4, 0.45) for place in range(faint)],
            "jar": [_at(place + 8, 0.9) for place in range(jars)],
        }
        return [found.get(phrase, []) for phrase in phrases]


def _at(place: int, score: float) -> Detection:
    return Detection((20.0 * place + 1, 1.0, 20.0 * place + 15, 15.0), score)


def picture(path: Path, lamps: int, jars: int, faint: int = 0) -> None:
    """Write a picture of 240 x 20 pixels."""
    pixels = np.full((20, 240, 3), 128, np.uint8)
    pixels[0, 0] = (lamps, jars, faint)
    pixels[10, :8, 0] = np.frombuffer(path.name.rjust(8)[:8].encode(), np.uint8)  # none are equal
    Image.fromarray(pixels).save(path)


def pictures(folder: Path, count: int, seed: int = 0, faint: bool = False) -> dict[str, str]:
    """Write pictures and return whether a lamp burns in each, by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    draw, answers = Random(seed), {}
    for number in range(count):
        lamps, jars = number % 2 * draw.randint(1, 2), draw.randint(0, 2)
        dim = int(faint and draw.random() < 0.2)
        picture(folder / f"{number:03}.png", lamps, jars, dim)
        answers[f"{number:03}.png"] = "yes" if lamps or dim else "no"
    return answers


def table(path: Path, answers: dict[str, str], folder: str = "pictures") -> Path:
    """Write answers as a table."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("media", "answer"))
        writer.writerows((f"{folder}/{name}", answer) for name, answer in answers.items())
    return path


def boxes(folder: Path, count: int = 10) -> Path:
    """Write pictures with one jar each, and a table of its boxes."""
    (folder / "jars").mkdir(parents=True)
    lines = ["media,query,answer,task"]
    for number in range(count):
        picture(folder / "jars" / f"{number:03}.png", 1, 1)
        lines.append(f'jars/{number:03}.png,the jar,"[161, 1, 175, 15]",ground')
    path = folder / "boxes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
