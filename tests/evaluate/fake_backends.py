"""Backends that a profile can name, ``tests.evaluate.fake_backends:Writer``: no weights, no torch.

What they say depends on what they are asked alone, whatever stands beside it in a batch.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.scripted import cut_at_stop
from viper.models.vision.roles import Detection

COLORS = ("red", "green", "blue", "gray")

PROFILE = """
name = "fake"
[llm]
backend = "tests.evaluate.fake_backends:Writer"
model = "writer"
[roles]
detector = {{ backend = "tests.evaluate.fake_backends:Finder", model = "finder" }}
vqa = {{ backend = "tests.evaluate.fake_backends:Answerer", model = "{vqa}" }}
ocr = {{ backend = "tests.receipt:ReceiptReader", model = "receipt" }}
[run]
trials = 2
prompt_style = "compact"
[limits]
time_s = 10.0
"""


def a_set(folder: Path, questions: int, vqa: str = "answerer") -> tuple[Path, Path]:
    """A CSV file of questions, four a picture, and a profile that answers them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["media,query,answer,id"]
    for number in range(questions):
        name = f"pictures/{number // 4}.png"
        if number % 4 == 0:
            (folder / "pictures").mkdir(exist_ok=True)
            shade = np.full((12, 16, 3), number // 4 % 256, np.uint8)
            Image.fromarray(shade).save(folder / name)
        query = f"what color is thing {number}?"
        lines.append(f"{name},{query},{color_of(query) if number % 3 else 'pink'},q{number}")
    (folder / "questions.csv").write_text("\n".join(lines) + "\n")
    (folder / "fake.toml").write_text(PROFILE.format(vqa=vqa))
    return folder / "questions.csv", folder / "fake.toml"


def share_of(text: str) -> float:
    """A number in [0, 1) that the text decides."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32


def color_of(question: str) -> str:
    return COLORS[int(share_of(question) * len(COLORS))]


class Writer:
    """Writes a program that passes the question on; ``cost_usd`` a program."""

    max_context = 100_000
    can_score = False

    def __init__(self, name: str, cost_usd: float | None = None) -> None:
        self.model_id = f"fake-{name}"
        self._cost_usd = cost_usd

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        text = (
            "def execute_command(image):\n"
            "    return ImagePatch(image).simple_query(question)\n\n# query: next"
        )
        text = text.replace("(image):", "(image, question):")
        cut = cut_at_stop(text, sampling.stop)
        return [[Completion(cut, len(p.split()), 20, cost_usd=self._cost_usd)] for p in prompts]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        raise NotImplementedError

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class Finder:
    """Finds one box wherever it looks."""

    def __init__(self, name: str) -> None:
        self.model_id = f"fake-{name}"

    def encode(self, images: Sequence[Any]) -> list[Any]:
        return [image.shape for image in images]

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        return [[Detection((1.0, 1.0, 9.0, 9.0), 0.9)] for _ in phrases]


class Answerer:
    """Answers with a color. Named ``broken``, it raises at every twentieth question or so.

    It raises for the whole batch, as a network does that cannot do with one of its items.
    """

    def __init__(self, name: str) -> None:
        self.model_id = "fake-answerer"
        self._share = 0.05 if name == "broken" else 0.0

    def encode(self, images: Sequence[Any]) -> list[Any]:
        return [image.shape for image in images]

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        if any(breaks(question, self._share) for question in questions):
            raise RuntimeError("the kernel failed")
        return [(color_of(question), 1.0) for question in questions]

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        return ["a picture" for _ in encodings]


def breaks(question: str, share: float = 0.05) -> bool:
    """Whether a broken model raises at the question."""
    return share_of(f"broken {question}") < share


class HangingWriter(Writer):
    """Hangs at question 5 while the file it is named after exists; the others go on meanwhile."""

    concurrent = True

    def __init__(self, name: str) -> None:
        super().__init__("hanging")
        self._flag = Path(name)

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        while "thing 5?" in prompts[0] and self._flag.exists():
            time.sleep(0.01)
        return super().generate(prompts, sampling)
