"""The embedded VQA model: a small BLIP that answers questions about crops and whole pictures.

Crops get most of the training, because a program asks about one object at a time and the detector
does the counting. Linear heads on the vision tower's first token, used in training only, teach it
the attributes (shape is slow to learn from answers alone). A second stage freezes the tower and
asks yes/no questions. These require a comparison of picture and text, which is learned last.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viper.models.vision.roles import Pixels, VisualAnswerer
from viper.models.vision.vqa_blip import BlipAnswerer
from viper.tools.crops import DEFAULT_MARGIN, object_crop
from viper_lab.recipes.object_views import ObjectViews, recoloured, resized, to_input, training_crop
from viper_lab.recipes.object_words import FAMILIES, attribute_ids
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit, save_half
from viper_lab.recipes.questions import (
    CAPTION_QUESTION,
    QAPair,
    about_object,
    about_picture,
    judgements,
    question_words,
    word_question,
)
from viper_lab.recipes.wordpieces import BLIP_MARKS, token_ids, word_tokenizer

_CONFIG = tomllib.loads(Path(__file__).with_name("vqa.toml").read_text("utf-8"))

IMAGE_SIZE, PATCH, WIDTH = (
    _CONFIG["vision"][name] for name in ("image_size", "patch_size", "hidden_size")
)
STEPS = 1500
# Frames of clips beside the stills, which are rendered otherwise.
TRAIN_FRAMES = 3_000
# Images of a batch: objects in their own colours, in exchanged colours, and whole pictures.
CROPS, RECOLOURED, PICTURES = 17, 10, 5

# Questions about each image of a batch: while the tower learns to see, and afterwards.
QUESTIONS_FIRST, QUESTIONS = 1, 2

# Steps of the second stage, and its yes/no questions about each crop besides one of any kind.
JUDGING_STEPS, JUDGEMENTS = 2200, 4

# Share of the steps with few questions.
LEARNING_TO_SEE = 0.3


def train(options: TrainOptions) -> dict[str, float]:
    """Train on rendered stills, write the weights, and return the validation figures.

    ``options.steps`` counts the steps of the first stage; the second takes ``JUDGING_STEPS /
    STEPS`` times as many.
    """
    torch.manual_seed(options.seed)
    tokenizer = word_tokenizer(question_words(), BLIP_MARKS)
    blip = build_model(tokenizer)
    heads = torch.nn.ModuleList(torch.nn.Linear(WIDTH, len(words)) for words in FAMILIES.values())
    model = torch.nn.ModuleDict({"blip": blip, "heads": heads}).to(options.device)
    views = ObjectViews.load("train", options.work, TRAIN_FRAMES)
    steps = options.steps or STEPS

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        images, questions, ids = _batch(
            views, rng, QUESTIONS_FIRST if step < LEARNING_TO_SEE * steps else QUESTIONS
        )
        pixels = to_input(images, options.device)
        seen = blip.vision_model(pixel_values=pixels).last_hidden_state
        truth = torch.tensor(ids, device=options.device)
        attribute = torch.zeros((), device=options.device)
        for k, (family, head) in enumerate(zip(FAMILIES, heads, strict=True)):
            rows = CROPS if family == "colour" else len(ids)
            guessed = head(seen[:rows, 0])
            attribute = attribute + torch.nn.functional.cross_entropy(guessed, truth[:rows, k])
        answer = _answers_loss(blip, tokenizer, seen, questions)
        loss = answer + 0.5 * attribute
        return loss, {"answer": float(answer.detach()), "attribute": float(attribute.detach())}

    plan = FitOptions(steps=steps, learning_rate=1e-3, weight_decay=0.05, ema=0.995)
    trained: Any = fit(model, loss_at, plan, options.work / "vqa" / "checkpoint.pt")
    _learn_to_judge(trained["blip"], tokenizer, views, options, steps * JUDGING_STEPS // STEPS)
    save(trained["blip"], tokenizer, options.out)
    return evaluate(
        BlipAnswerer.from_pretrained(options.out, caption_question=CAPTION_QUESTION),
        ObjectViews.load("val", options.work),
    )


def _learn_to_judge(
    blip: Any, tokenizer: Any, views: ObjectViews, options: TrainOptions, steps: int
) -> None:
    """Train the second stage in place: the text side alone, mostly on yes/no questions."""
    blip.requires_grad_(True)
    text = torch.nn.ModuleList([blip.text_encoder, blip.text_decoder])

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed + 1, step))
        images, questions, _ = _batch(views, rng, 1, JUDGEMENTS)
        with torch.no_grad():
            seen = blip.vision_model(pixel_values=to_input(images, options.device))
        loss = _answers_loss(blip, tokenizer, seen.last_hidden_state, questions)
        return loss, {"answer": float(loss.detach())}

    plan = FitOptions(steps=steps, learning_rate=1e-3, weight_decay=0.05, ema=None)
    fit(text, loss_at, plan, options.work / "vqa" / "judging.pt")
    blip.eval()


def _answers_loss(
    blip: Any, tokenizer: Any, seen: Tensor, questions: Sequence[Sequence[QAPair]]
) -> Tensor:
    """Return the loss of the answers to ``questions[i]`` about the image encoded as ``seen[i]``."""
    pairs = [(index, each) for index, group in enumerate(questions) for each in group]
    loss = torch.zeros((), device=seen.device)
    for part in _by_length(pairs):
        owners, flat = [index for index, _ in part], [each for _, each in part]
        loss = loss + len(part) / len(pairs) * answer_loss(blip, tokenizer, seen[owners], flat)
    return loss


def evaluate(
    answerer: VisualAnswerer,
    views: ObjectViews,
    limit: int = 600,
    pictures: int = 150,
    margin: float = DEFAULT_MARGIN,
    seed: int = 0,
) -> dict[str, float]:
    """Return shares of exact answers by kind of question; ``picture_…`` are about whole pictures.

    Args:
        answerer: the model under test.
        views: objects to use, e.g. of the test split.
        limit: maximum number of objects.
        pictures: maximum number of whole pictures.
        margin: context around a box.
        seed: selects the questions.
    """
    rng = np.random.default_rng(seed)
    sample = views.spread(limit)
    crops = [object_crop(views.image(view), view.box, margin) for view in sample]
    about = [
        [*about_object(v.thing, rng), *(word_question(v.thing, name, rng) for name in FAMILIES)]
        for v in sample
    ]
    figures = {"n": float(len(sample))} | _score(answerer, crops, about)
    scenes = views.scenes(pictures)
    images = [views.stills.image(index) for index in scenes]
    whole = [about_picture(views.things(index), rng) for index in scenes]
    scores = _score(answerer, images, whole)
    about_pictures = {f"picture_{name}": value for name, value in scores.items()}
    return figures | about_pictures | {"pictures": float(len(scenes))}


def build_model(tokenizer: Any, image_size: int = IMAGE_SIZE) -> Any:
    """Build an untrained ``BlipForQuestionAnswering``; BLIP's own vision init does not train."""
    from transformers import BlipConfig, BlipForQuestionAnswering

    text = {**_CONFIG["text"], **token_ids(tokenizer), "sep_token_id": tokenizer.sep_token_id}
    vision = {**_CONFIG["vision"], "image_size": image_size}
    model = BlipForQuestionAnswering(BlipConfig(text_config=text, vision_config=vision))
    embeddings, side = model.vision_model.embeddings, image_size // PATCH
    with torch.no_grad():
        embeddings.position_embedding[0, 1:] = 0.3 * grid_positions(side, side, WIDTH)
        embeddings.patch_embedding.weight.normal_(0, (3 * PATCH * PATCH) ** -0.5)
    return model


def grid_positions(rows: int, columns: int, width: int) -> Tensor:
    """Return sines and cosines of row and column, ``[rows * columns, width]``.

    With these positions a tower need not learn first which patches are neighbours. ``width`` must
    be divisible by 4.
    """
    rates = 1.0 / 100 ** (torch.arange(width // 4) / (width // 4))

    def waves(count: int) -> Tensor:
        angles = torch.arange(count, dtype=torch.float32)[:, None] * rates[None, :]
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    by_row = waves(rows)[:, None, :].expand(rows, columns, -1)
    by_column = waves(columns)[None, :, :].expand(rows, columns, -1)
    return torch.cat([by_row, by_column], dim=2).reshape(rows * columns, width)


def answer_loss(model: Any, tokenizer: Any, seen: Tensor, pairs: Sequence[QAPair]) -> Tensor:
    """Return the mean loss of the answers' tokens.

    Args:
        model: a ``BlipForQuestionAnswering``.
        tokenizer: its tokenizer.
        seen: [Q, tokens, width], the vision tower's output for each question's image.
        pairs: Q questions and answers.
    """
    questions = tokenizer([each.question for each in pairs], padding=True, return_tensors="pt")
    ids, mask = (questions[key].to(seen.device) for key in ("input_ids", "attention_mask"))
    read = model.text_encoder(
        input_ids=ids,
        attention_mask=mask,
        encoder_hidden_states=seen,
        encoder_attention_mask=torch.ones(seen.shape[:2], dtype=torch.long, device=seen.device),
    ).last_hidden_state
    answers = tokenizer([each.answer for each in pairs], padding=True, return_tensors="pt")
    answer_ids = answers["input_ids"].to(seen.device)
    answer_ids[:, 0] = tokenizer.bos_token_id
    logits = model.text_decoder(
        input_ids=answer_ids[:, :-1],
        attention_mask=answers["attention_mask"][:, :-1].to(seen.device),
        encoder_hidden_states=read,
        encoder_attention_mask=mask,
    ).logits
    targets = answer_ids[:, 1:].masked_fill(
        answers["attention_mask"][:, 1:].to(seen.device) == 0, -100
    )
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=-100
    )


def save(model: Any, tokenizer: Any, folder: Path, image_size: int = IMAGE_SIZE) -> None:
    """Write the folder that ``from_pretrained`` loads, in half precision."""
    from transformers import BlipImageProcessor

    processor = BlipImageProcessor(
        size={"height": image_size, "width": image_size},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
    save_half(model, folder, tokenizer, processor)


def _batch(
    views: ObjectViews, rng: np.random.Generator, questions: int, judgement_count: int = 0
) -> tuple[Pixels, list[list[QAPair]], list[list[int]]]:
    """Return images ``[B, S, S, 3]`` (crops first), their questions, attribute ids of the crops.

    ``judgement_count`` yes/no questions about each crop are added to ``questions`` of any kind.
    """
    objects = [views.pick(rng) for _ in range(CROPS + RECOLOURED)]
    images = [training_crop(views, view, IMAGE_SIZE, rng) for view in objects]
    images[CROPS:] = [recoloured(image, rng) for image in images[CROPS:]]
    pairs = [
        [
            *_pick(about_object(view.thing, rng, coloured=index < CROPS), questions, rng),
            *judgements(view.thing, rng, judgement_count, coloured=index < CROPS),
        ]
        for index, view in enumerate(objects)
    ]
    for _ in range(PICTURES):
        index = views.pick(rng).still
        picture = resized(views.stills.image(index), IMAGE_SIZE)
        images.append(picture[:, ::-1] if rng.random() < 0.5 else picture)
        pairs.append(_pick(about_picture(views.things(index), rng), questions, rng))
    return np.stack(images), pairs, [attribute_ids(view.thing) for view in objects]


def _by_length(pairs: list[tuple[int, QAPair]]) -> list[list[tuple[int, QAPair]]]:
    """Separate captions from short answers, which padding would make many times as costly."""
    captions = [pair for pair in pairs if pair[1].about == "caption"]
    short = [pair for pair in pairs if pair[1].about != "caption"]
    return [part for part in (short, captions) if part]


def _pick(pairs: Sequence[QAPair], count: int, rng: np.random.Generator) -> list[QAPair]:
    """Draw a few of the questions."""
    order = rng.permutation(len(pairs))[:count]
    return [pairs[int(index)] for index in order]


def _score(
    answerer: VisualAnswerer, images: Sequence[Pixels], questions: Sequence[Sequence[QAPair]]
) -> dict[str, float]:
    encodings = answerer.encode(images)
    pairs = [(code, q) for code, group in zip(encodings, questions, strict=True) for q in group]
    short = [pair for pair in pairs if pair[1].about != "caption"]
    answers = answerer.answer([code for code, _ in short], [each.question for _, each in short])
    right: dict[str, list[bool]] = {}
    for (_, each), (answer, _) in zip(short, answers, strict=True):
        right.setdefault(each.about, []).append(answer == each.answer)
    targets = [each.answer for _, each in pairs if each.about == "caption"]
    captions = answerer.caption(encodings)
    right["caption"] = [caption == true for caption, true in zip(captions, targets, strict=True)]
    return {about: float(np.mean(hits)) for about, hits in sorted(right.items())}
