"""A VQA model for whole questions: what a program must beat, not a tool of programs.

The shipped VQA model is fine-tuned on the question texts of the world and their answers, about
whole pictures of the train split, relations and comparisons included. It sees them in a higher
resolution than crops need.

``viper lab world train vqa-baseline --out DIR`` trains it, and ``viper lab world score --baselines
--vqa-baseline DIR`` scores it. It does not come with the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viper.embedded import WEIGHTS
from viper.evaluate.metrics.accuracy import answer_correct
from viper.models.vision.vqa_blip import BlipAnswerer
from viper_lab.datasets.world import world_media
from viper_lab.recipes.object_views import resized, to_input
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit
from viper_lab.recipes.questions import QAPair, question_words
from viper_lab.recipes.vqa import answer_loss, build_model, save
from viper_lab.recipes.wordpieces import BLIP_MARKS, word_tokenizer
from viper_lab.world.queries.generate import generate

# Side in pixels of a whole picture as the model sees it. Crops are 80 pixels wide.
IMAGE_SIZE = 120

STEPS, BATCH = 6000, 64
# Question files, and the questions in each, every one about a picture of its own.
SHARDS, SHARD = 30, 1000

_WORD = re.compile(r"[a-z]+|\d")
_ROWS_OF_PIECES = ("word_embeddings.weight", "predictions.bias", "decoder.weight", "decoder.bias")


@dataclass(frozen=True)
class Questions:
    """Questions with their answers and pictures.

    Attributes:
        pictures: uint8 [N, IMAGE_SIZE, IMAGE_SIZE, 3].
    """

    pairs: Sequence[QAPair]
    pictures: NDArray[np.uint8]


def train(options: TrainOptions) -> Mapping[str, float]:
    """Fine-tune the shipped VQA model and write the weights.

    Pictures and questions are stored below ``options.work`` and made once.

    Returns:
        The share of right answers to validation questions, and their number ``n``.
    """
    shards = [questions("train", seed, SHARD, options.work) for seed in range(SHARDS)]
    reached = fine_tune(options, shards)
    save(reached[0], reached[1], options.out, IMAGE_SIZE)
    return evaluate(options.out, questions("val", 0, SHARD, options.work))


def fine_tune(options: TrainOptions, shards: Sequence[Questions]) -> tuple[Any, Any]:
    """Return the model, fine-tuned on questions, and its tokenizer."""
    torch.manual_seed(options.seed)
    model, tokenizer = starting_point(pair for shard in shards for pair in shard.pairs)
    model.to(options.device)

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        shard = shards[int(rng.integers(len(shards)))]
        places = rng.integers(len(shard.pairs), size=BATCH)
        pixels = to_input(shard.pictures[places], options.device)
        seen = model.vision_model(pixel_values=pixels).last_hidden_state
        loss = answer_loss(model, tokenizer, seen, [shard.pairs[place] for place in places])
        return loss, {"answer": float(loss.detach())}

    plan = FitOptions(options.steps or STEPS, learning_rate=5e-4, weight_decay=0.05, ema=0.995)
    checkpoint = options.work / "vqa-baseline" / "checkpoint.pt"
    return fit(model, loss_at, plan, checkpoint), tokenizer


def questions(split: str, seed: int, count: int, work: Path) -> Questions:
    """Return questions about whole pictures, which are rendered unless ``work`` holds them."""
    path = work / "vqa-baseline" / f"{split}-{seed}-{count}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = generate("question", split, seed, count)
        pictures = np.stack([resized(world_media(each)(), IMAGE_SIZE) for each in samples])
        texts = np.array([(each.text, each.answer_text) for each in samples])
        part = path.with_suffix(".part.npz")
        np.savez(part, texts=texts, pictures=pictures)
        part.replace(path)
    with np.load(path) as stored:
        pairs = [QAPair(str(text), str(answer), "query") for text, answer in stored["texts"]]
        return Questions(pairs, stored["pictures"])


def starting_point(pairs: Iterator[QAPair]) -> tuple[Any, Any]:
    """Return the shipped model with a larger picture and more words, and its tokenizer.

    New words begin with random vectors; positions in the picture are interpolated.
    """
    from transformers import AutoTokenizer, BlipForQuestionAnswering

    words = {w for pair in pairs for w in _WORD.findall(f"{pair.question} {pair.answer}".lower())}
    old_tokenizer = AutoTokenizer.from_pretrained(WEIGHTS / "vqa")
    old = BlipForQuestionAnswering.from_pretrained(WEIGHTS / "vqa").float().state_dict()
    tokenizer = word_tokenizer(words | question_words(), BLIP_MARKS)
    model = build_model(tokenizer, IMAGE_SIZE)
    known = old_tokenizer.get_vocab()
    rows = [(new, known[piece]) for piece, new in tokenizer.get_vocab().items() if piece in known]
    places, sources = (torch.tensor(column) for column in zip(*rows, strict=True))
    state = model.state_dict()
    for name, value in old.items():
        if name.endswith(_ROWS_OF_PIECES):
            state[name][places] = value[sources]
        elif name.endswith("embeddings.position_embedding"):
            state[name] = _interpolated(value, state[name].shape[1])
        else:
            state[name] = value
    model.load_state_dict(state)
    return model, tokenizer


def evaluate(folder: Path, asked: Questions) -> dict[str, float]:
    """Return the share of right answers, and ``n``, of the weights in a folder."""
    answerer = BlipAnswerer.from_pretrained(folder)
    texts = [pair.question for pair in asked.pairs]
    answers = answerer.answer(answerer.encode(list(asked.pictures)), texts)
    right = [
        answer_correct(answer, pair.answer)
        for (answer, _), pair in zip(answers, asked.pairs, strict=True)
    ]
    return {"right": float(np.mean(right)), "n": float(len(right))}


def _interpolated(positions: Tensor, count: int) -> Tensor:
    """Return the position embeddings [1, 1 + N, width] of a square picture for another N."""
    first, grid = positions[:, :1], positions[:, 1:]
    old_side, side = (round((number - 1) ** 0.5) for number in (positions.shape[1], count))
    square = grid.reshape(1, old_side, old_side, -1).permute(0, 3, 1, 2)
    larger = torch.nn.functional.interpolate(square, (side, side), mode="bicubic")
    return torch.cat([first, larger.permute(0, 2, 3, 1).reshape(1, side * side, -1)], dim=1)
