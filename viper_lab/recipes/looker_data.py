"""Drawn episodes of ``world-fine`` on disk: tokens, labels, pictures and facts, in files of 250."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from viper.models.llm.messages import Conversation, pictures_of
from viper.models.llm.prompt_tokens import ChatTemplate
from viper.threads import available_cores
from viper_lab.recipes.looker_episodes import episode
from viper_lab.recipes.looker_model import END, IMAGE, PICTURE_TOKENS, SIDE
from viper_lab.world.fine.kinds import FACTS

PER_FILE = 250


class Episode(NamedTuple):
    """An episode as a training reads it.

    Attributes:
        tokens: int64 [T].
        labels: int64 [T], -100 outside the replies.
        pictures: ``uint8 [N, S, S, 3]``.
        facts: int8 [N, F], the class of each fact of each picture; -1 if it has none.
    """

    tokens: NDArray[np.int64]
    labels: NDArray[np.int64]
    pictures: NDArray[np.uint8]
    facts: NDArray[np.int8]


def draw(folder: Path, processor: Any, seed: int, count: int) -> list[Episode]:
    """Return the first ``count`` episodes of a seed; files that exist are read."""
    folder.mkdir(parents=True, exist_ok=True)
    cv2.setNumThreads(1)  # threads of OpenCV do not survive in forked workers
    files = range(math.ceil(count / PER_FILE))
    with multiprocessing.get_context("fork").Pool(available_cores()) as pool:
        for number, _ in enumerate(pool.imap(partial(_write, folder, processor, seed), files)):
            if number % 10 == 9:
                print(f"{(number + 1) * PER_FILE} of {count} episodes", flush=True)
    return [one for number in files for one in _read(_path(folder, seed, number))][:count]


def encoded(
    messages: Conversation, processor: Any, facts: Sequence[Mapping[str, int]] = ()
) -> Episode:
    """Return a conversation that ends in a reply as tokens, labels and pictures."""
    tokenizer = processor.tokenizer
    template = ChatTemplate(processor, tokenizer, None, takes_parts=True)
    replies = [at for at, message in enumerate(messages) if message.role == "assistant"]
    tokens: list[int] = []
    labels: list[int] = []
    done = ""
    for at in replies:
        head = template.render(messages[:at])
        tail = f"{messages[at].text}{END}"
        text = head.removeprefix(done).replace(IMAGE, IMAGE * PICTURE_TOKENS)
        new = tokenizer.encode(text, add_special_tokens=False)
        own = tokenizer.encode(tail, add_special_tokens=False)
        tokens += [*new, *own]
        labels += [*([-100] * len(new)), *own]
        done = head + tail
    pictures = [as_input(picture.pixels) for picture in pictures_of(messages)]
    classes = [[each.get(name, -1) for name in FACTS] for each in facts]
    return Episode(
        np.array(tokens),
        np.array(labels),
        np.array(pictures, np.uint8).reshape(-1, SIDE, SIDE, 3),
        np.array(classes, np.int8).reshape(-1, len(FACTS)),
    )


def as_input(pixels: Any) -> Any:
    """Return a picture in the size of the tower, resized as the image processor does."""
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def _path(folder: Path, seed: int, number: int) -> Path:
    return folder / f"{seed}-{number:05d}.npz"


def _write(folder: Path, processor: Any, seed: int, number: int) -> None:
    path = _path(folder, seed, number)
    if path.exists():
        return
    indices = range(number * PER_FILE, (number + 1) * PER_FILE)
    drawn = (episode("train", seed, index) for index in indices)
    items = [encoded(messages, processor, facts) for messages, facts in drawn]
    part = path.with_suffix(".part.npz")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in items]) for name in Episode._fields
    }
    lengths = np.array([(len(each.tokens), len(each.pictures)) for each in items])
    np.savez(part, lengths=lengths, **columns)
    part.replace(path)


def _read(path: Path) -> list[Episode]:
    with np.load(path) as file:
        ends = np.cumsum(file["lengths"], axis=0)[:-1]
        columns = [
            np.split(file[name], ends[:, place])
            for name, place in zip(Episode._fields, (0, 0, 1, 1), strict=True)
        ]
    return [Episode(*values) for values in zip(*columns, strict=True)]
