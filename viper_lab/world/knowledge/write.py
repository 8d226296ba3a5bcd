"""Writes a knowledge world as files for ``viper setup index``, and questions about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from viper.models.vision.roles import Pixels
from viper_lab.world.knowledge.articles import articles, left_out
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.gallery import references, with_labels, work_note
from viper_lab.world.knowledge.questions import KnowledgeQuestion, questions
from viper_lab.world.render import render_scene

GALLERY, TEXTS, QUESTIONS = "gallery", "texts.jsonl", "questions.jsonl"


def write_world(
    out: Path, split: str, seed: int, designs: int, count: int
) -> Iterator[tuple[str, int]]:
    """Write everything; yield name and count of each part.

    ``OUT/gallery`` with ``metadata.jsonl``, ``OUT/texts.jsonl``, ``OUT/questions.jsonl`` with the
    pictures in ``OUT/questions``. The gallery also holds the named pictures, smaller and as JPEG.

    Raises:
        UsageError: more designs than there are looks.
    """
    whole = catalogue(split, seed, designs)
    gallery = out / GALLERY
    (gallery / "works").mkdir(parents=True)
    (out / "questions").mkdir()
    random = Random(f"works {split} {seed}")
    with (gallery / "metadata.jsonl").open("w", encoding="utf-8") as notes:
        number = 0
        for number, (pixels, note) in enumerate(references(whole), 1):
            name = f"{number - 1:04d}.png"
            Image.fromarray(pixels).save(gallery / name)
            notes.write(_line({"file_name": name, **note}))
        yield "reference pictures", number
        count_done = 0
        with (out / QUESTIONS).open("w", encoding="utf-8") as lines:
            for count_done, question in enumerate(questions(whole, count), 1):
                pixels = picture_of(question)
                image = f"questions/{count_done - 1:04d}.png"
                Image.fromarray(pixels).save(out / image)
                lines.write(_line({**record_of(question), "image": image}))
                if question.kind == "picture":
                    name = f"works/{count_done - 1:04d}.jpg"
                    _smaller(pixels).save(gallery / name, quality=88)
                    notes.write(_line({"file_name": name, **work_note(question.seen, random)}))
    yield "questions", count_done
    texts = articles(whole, left_out(whole))
    with (out / TEXTS).open("w", encoding="utf-8") as lines:
        lines.writelines(_line({"title": text.title, "text": text.text}) for text in texts)
    yield "texts", len(texts)


def picture_of(question: KnowledgeQuestion) -> Pixels:
    """Return the picture of a question, uint8 [H, W, 3], with labels if the question needs them."""
    marks = [
        design.mark if place == question.target else ""
        for place, design in enumerate(question.shown)
    ]
    return with_labels(render_scene(question.scene), marks)


def record_of(question: KnowledgeQuestion) -> dict[str, Any]:
    """Return a question as JSON, without its scene."""
    names = ("kind", "text", "answer", "visual", "knowledge", "seen", "path", "look_alike")
    return {"id": question.question_id, **{name: getattr(question, name) for name in names}}


def _smaller(pixels: Pixels) -> Image.Image:
    picture = Image.fromarray(pixels)
    return picture.resize((round(picture.width * 0.8), round(picture.height * 0.8)))


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
