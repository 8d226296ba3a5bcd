"""Figure 22: soft prompts against training the matcher's own weights, by number of pictures.

Both see the same pictures of each reserved concept, one concept after the other, and are asked the
same questions about new and old concepts. What is trained directly is a copy of the shipped model,
all weights of it, by the same contrast: a picture shows its own concept and none of the related
ones.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viper.models.vision.matcher_open_clip import OpenClipMatcher
from viper.models.vision.prompt_pool import PromptPool
from viper.models.vision.roles import Pixels
from viper.storage.files import write_file
from viper.tools.models import ModelSet
from viper.tools.toolbox import Toolbox
from viper.tuning.tool_training import Sources, ToolTrainer
from viper_lab.papers.clova_tools import ToolSetup, asked_about, slug_of, tool_outcome
from viper_lab.papers.result import TableCell
from viper_lab.scores.concepts import match as questions
from viper_lab.scores.concepts.measurement import ToolAnswer
from viper_lab.world.annotated import WorldStore
from viper_lab.world.found import WorldPictureSearch

# Pictures of each concept; soft prompts need two, one to learn from and one to judge by.
COUNTS = (1, 3, 5, 7)

STEPS, RATE, BATCH = 100, 1e-4, 16


def figure(
    toolbox: Toolbox,
    asked: ToolSetup,
    seeds: Sequence[int],
    folder: Path,
    say: Callable[[str], None],
) -> Iterator[TableCell]:
    """Yield rows for new and old concepts by number of pictures, with soft prompts and with fine-
    tuning.

    Args:
        asked: questions and their split.
    """
    for positives in COUNTS:
        by_method: defaultdict[str, list[tuple[Sequence[ToolAnswer], ...]]] = defaultdict(list)
        for seed in seeds:
            setup = replace(asked, tool="match", seed=seed, positives=positives)
            say(f"{positives} pictures, seed {seed}")
            if positives > 1:
                outcome = tool_outcome(toolbox, setup, folder, say)
                by_method["soft prompts"].append((outcome.new[1], outcome.old[1]))
            by_method["all weights"].append(_answers_of_trained(toolbox, setup, folder, say))
        for name, pairs in by_method.items():
            for place, part in enumerate(("new", "old")):
                scores = [[answer.right for answer in pair[place]] for pair in pairs]
                row = f"{name}, {positives} pictures"
                yield TableCell.of_scores("figure 22", row, part, scores)


def _answers_of_trained(
    toolbox: Toolbox, setup: ToolSetup, folder: Path, say: Callable[[str], None]
) -> tuple[list[ToolAnswer], list[ToolAnswer]]:
    """Return the answers of the fine-tuned matcher about new and old concepts."""
    path = folder / f"trained-{slug_of(setup)}.json"
    if path.is_file():
        stored = json.loads(path.read_text("utf-8"))
        new, old = ([ToolAnswer(**answer) for answer in answers] for answers in stored)
        return new, old
    search = WorldPictureSearch(setup.wrong, setup.seed)
    pool = PromptPool(folder / "unused")
    trainer = ToolTrainer(toolbox.models, pool, Sources(WorldStore(), search, setup.positives))
    with toolbox.models.using("matcher") as backend:
        tuned = copied(backend)
    for concept in setup.concepts:
        say(f"training all weights: {concept}")
        data = trainer.collect("match", concept, setup.seed)
        words = [concept, *map(str, data.evidence["related"])]
        pictures = [(crop.pixels(), concept) for crop in data.positives]
        pictures += [(crop.pixels(), crop.text) for crop in data.negatives]
        train(tuned, pictures, words, setup.seed)
    shipped = {role: partial(toolbox.models.get, role) for role in toolbox.models.roles}
    models = ModelSet({**shipped, "matcher": lambda: tuned})
    new, old = asked_about(questions, Toolbox(models, toolbox.settings), setup)
    write_file(path, json.dumps([[asdict(answer) for answer in part] for part in (new, old)]))
    return new, old


def copied(matcher: OpenClipMatcher) -> OpenClipMatcher:
    """Return the matcher with its own model id and a copy of its weights, which can be trained."""
    copy_of_matcher = copy.copy(matcher)
    copy_of_matcher._model = copy.deepcopy(matcher._model).requires_grad_(True)
    copy_of_matcher.model_id = f"{matcher.model_id}+trained"
    return copy_of_matcher


def train(
    matcher: OpenClipMatcher,
    pictures: Sequence[tuple[Pixels, str]],
    words: Sequence[str],
    seed: int,
) -> None:
    """Train all weights so that each picture fits its own word best. Batch statistics stay frozen.

    Args:
        pictures: uint8 [H, W, 3] with the word, one of ``words``, that it shows.
    """
    import torch
    from PIL import Image

    model, rng = matcher._model, np.random.default_rng(seed)
    index_of = {word: place for place, word in enumerate(words)}
    labelled = [(pixels, index_of[word]) for pixels, word in pictures if word in index_of]
    images = [matcher._preprocess(Image.fromarray(pixels)) for pixels, _ in labelled]
    batch: Any = torch.stack(images)
    labels = torch.tensor([label for _, label in labelled])
    tokens = matcher._tokenizer(list(words))
    torch.manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    model.eval()
    with torch.enable_grad():
        for _ in range(STEPS):
            chosen = torch.from_numpy(rng.permutation(len(labelled))[:BATCH])
            pictures_of_batch = batch[chosen]
            if rng.random() < 0.5:
                pictures_of_batch = pictures_of_batch.flip(-1)
            embeddings = model.encode_image(pictures_of_batch, normalize=True)
            texts = model.encode_text(tokens, normalize=True)
            logits = matcher.logit_scale * embeddings @ texts.T
            loss = torch.nn.functional.cross_entropy(logits, labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
