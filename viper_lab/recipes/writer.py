"""The small program writer's recipe: a Llama that writes programs from the compact prompt.

``viper lab world train writer-small``. Single CPU core, float32: about 5,000 tokens per second. The
phases of its curriculum are in ``writer.toml``: first the grammar, nouns and names
(``GROUND_PART``), then facts that only examples show (``FURTHER_PART``), then realistic prompts
(``LAST_PART``), then everyday English in a model with more layers and words (``EVERYDAY_PART``).
"""

from __future__ import annotations

import copy
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from viper.embedded import WEIGHTS
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit
from viper_lab.recipes.writer_documents import DocumentOptions, Piece, document
from viper_lab.recipes.writer_growth import grown_tokenizer, grown_writer
from viper_lab.recipes.writer_init import LineTokens, WriterShape, build_writer
from viper_lab.recipes.writer_score import evaluate
from viper_lab.recipes.writer_tokenizer import (
    BOS,
    EOS,
    PAD,
    build_tokenizer,
    load_tokenizer,
    save_tokenizer,
)
from viper_lab.recipes.writer_words import spelling_samples

MAX_CONTEXT = 2048
LINE_STARTS = ("\n", "\n\n", "# ", "\n# ", "\n    ", "\n    # ", "\n        ", "\n        # ")

# The shipped one, base of the adapters.
SMALL_WRITER = WEIGHTS / "writer_small"

# Words of everyday English that become tokens.
NEW_WORDS = 400

PLAIN = DocumentOptions(made_up_nouns=0, made_up_names=0, swapped_names=0)


@dataclass(frozen=True)
class Stage:
    """A part of a phase, up to a share of its steps; longer documents are left out.

    Attributes:
        others: share of documents of another source.
    """

    until: float
    max_tokens: int
    documents: DocumentOptions
    others: float = 0.0


@dataclass(frozen=True)
class Phase:
    """A training of its own that starts from the averaged weights of the phase before.

    Attributes:
        name: name of the checkpoint; it also seeds the documents.
        step_tokens: approximate tokens per step.
        muon: train the matrices of the layers by Muon instead of AdamW.
        half: compute in bfloat16, with weights in float32.
    """

    name: str
    stages: Sequence[Stage]
    steps: int
    learning_rate: float
    warmup: int = 60
    step_tokens: int = 5000
    muon: bool = False
    half: bool = False

    def stage(self, step: int) -> Stage:
        """Return the stage of a step."""
        return next(
            (stage for stage in self.stages if step < stage.until * self.steps), self.stages[-1]
        )


# Yields documents without end, by the random numbers alone.
Source = Callable[[Random], Iterator[list[Piece]]]


def _stage(documents: dict[str, Any], **settings: Any) -> Stage:
    shares = documents.get("ambiguous_shares", DocumentOptions.ambiguous_shares)
    options = {**documents, "ambiguous_shares": tuple(shares)}
    return Stage(documents=DocumentOptions(**options), **settings)


GROUND_PART, FURTHER_PART, LAST_PART, EVERYDAY_PART, PRETRAINED_PART, ROLES_PART, CLIPS_PART = (
    Phase(**{**part, "stages": tuple(_stage(**stage) for stage in part["stages"])})
    for part in tomllib.loads(Path(__file__).with_name("writer.toml").read_text("utf-8")).values()
)


@dataclass(frozen=True)
class Batch:
    """Token ids and loss mask of documents of similar length, both ``[rows, length]``."""

    ids: Tensor
    learned: Tensor


def train(options: TrainOptions) -> Mapping[str, float]:
    """Train the writer, save it to ``options.out``, and return its figures.

    ``options.steps`` limits every phase, for a trial.
    """
    compiled = shutil.which("g++") is not None
    model, tokenizer = train_writer(options, compiled=compiled)
    for part in (FURTHER_PART, LAST_PART):
        model = train_part(model, tokenizer, options, part, compiled=compiled)
    larger, words = everyday_writer(model, tokenizer, options, compiled=compiled)
    save_writer(larger, words, options.out)
    return evaluate(options.out)


def train_writer(
    options: TrainOptions,
    *,
    part: Phase = GROUND_PART,
    shape: WriterShape | None = None,
    compiled: bool = False,
) -> tuple[Any, Tokenizer]:
    """Return the model after the first phase and its tokenizer; resume from ``options.work``."""
    tokenizer = writer_tokenizer(options.work, options.seed)
    model = initial_writer(tokenizer, options.seed, shape)
    return train_part(model, tokenizer, options, part, compiled=compiled), tokenizer


def train_part(
    model: Any,
    tokenizer: Tokenizer,
    options: TrainOptions,
    part: Phase,
    *,
    others: Source | None = None,
    compiled: bool = False,
) -> Any:
    """Return the model after one more phase of training; resume from ``options.work``.

    Args:
        others: source of the documents that stages have beside the writer's.
        compiled: let torch generate code (needs a C++ compiler). This takes a minute once, then
            training is 1.4 times as fast.
    """
    part = replace(part, steps=options.steps or part.steps)
    model.to(options.device).requires_grad_(True)
    hidden_states = torch.compile(model.model, dynamic=True) if compiled else model.model
    plan = FitOptions(
        steps=part.steps,
        learning_rate=part.learning_rate,
        warmup=part.warmup,
        decay="tail",
        final_share=0.03,
        betas=(0.9, 0.95),
        weight_decay=0.01,
        ema=0.995,
        log_every=20,
        muon="model.layers." if part.muon else None,
    )

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        seed = f"{part.name} {options.seed} {step}"
        batches = batches_at(tokenizer, part.stage(step), seed, part.step_tokens, others)
        with torch.autocast(options.device, torch.bfloat16, enabled=part.half):
            return loss_of(hidden_states, model.lm_head, batches, options.device)

    return fit(model, loss_at, plan, options.work / f"{part.name}.pt")


def everyday_writer(
    model: Any,
    tokenizer: Tokenizer,
    options: TrainOptions,
    *,
    part: Phase = EVERYDAY_PART,
    compiled: bool = False,
) -> tuple[Any, Tokenizer]:
    """Return a larger writer after the phase of everyday English; resume from ``options.work``."""
    stored = options.work / "everyday-tokenizer.json"
    if not stored.exists():
        random = Random(f"everyday words {options.seed}")
        documents = replace(PLAIN, everyday=1.0, selections=0.15, full_header=0.0, programs=8)
        texts = ("".join(p.text for p in document(random, documents)) for _ in range(1500))
        grown_tokenizer(tokenizer, texts, NEW_WORDS).save(str(stored))
    larger = Tokenizer.from_file(str(stored))
    grown = grown_writer(model, tokenizer, larger)
    return train_part(grown, larger, options, part, compiled=compiled), larger


def initial_writer(tokenizer: Tokenizer, seed: int = 0, shape: WriterShape | None = None) -> Any:
    """Build the untrained model for a tokenizer."""
    starts = [tokenizer.token_to_id(token) for token in LINE_STARTS]
    marks = LineTokens(tuple(i for i in starts if i is not None), tokenizer.token_to_id("▁query"))
    special = [token_id(tokenizer, token) for token in (PAD, BOS, EOS)]
    size = tokenizer.get_vocab_size()
    return build_writer(size, *special, marks=marks, seed=seed, shape=shape)


def writer_tokenizer(
    work: Path, seed: int, *, documents: int = 2500, words: int = 5000
) -> Tokenizer:
    """Load the tokenizer of the work folder, or build it from that many texts and words."""
    if not (work / "tokenizer.json").exists():
        random = Random(f"writer tokenizer {seed}")
        texts = ["".join(p.text for p in document(random, PLAIN)) for _ in range(documents)]
        save_tokenizer(
            build_tokenizer(texts, spelling_samples(random, words)), work, max_length=MAX_CONTEXT
        )
    return load_tokenizer(work)


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of a token of the vocabulary."""
    number = tokenizer.token_to_id(token)
    assert number is not None, token
    return number


def save_writer(model: Any, tokenizer: Tokenizer, folder: Path) -> None:
    """Save weights in half precision and tokenizer files, for ``from_pretrained``."""
    half: Any = copy.deepcopy(model)
    half.to(torch.float16)
    half.generation_config.max_length = MAX_CONTEXT
    half.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, max_length=MAX_CONTEXT)


def batches_at(
    tokenizer: Tokenizer, stage: Stage, seed: str, step_tokens: int, others: Source | None = None
) -> list[Batch]:
    """Draw the documents of one step by its seed, sorted by length into a few batches."""
    random = Random(seed)
    further = others(random) if others is not None else iter(())
    rows: list[tuple[list[int], list[bool]]] = []
    total = 0
    while total < step_tokens:
        is_other = stage.others > 0 and random.random() < stage.others
        drawn = next(further) if is_other else document(random, stage.documents)
        row = encode_pieces(tokenizer, drawn)
        if len(row[0]) <= stage.max_tokens:
            rows.append(row)
            total += len(row[0])
    return batched(rows)


def batched(rows: list[tuple[list[int], list[bool]]]) -> list[Batch]:
    """Sort encoded texts by length into at most four batches."""
    rows.sort(key=lambda row: len(row[0]))
    chunk = max(1, -(-len(rows) // 4))
    return [_pad(rows[i : i + chunk]) for i in range(0, len(rows), chunk)]


def encode_pieces(tokenizer: Tokenizer, pieces: Sequence[Piece]) -> tuple[list[int], list[bool]]:
    """Return the token ids of a document, and a flag per token: does it count in the loss?"""
    ids: list[int] = []
    learned: list[bool] = []
    for piece in pieces:
        encoded = tokenizer.encode(piece.text, add_special_tokens=False).ids
        ids += encoded
        learned += [piece.learned] * len(encoded)
    ids.append(token_id(tokenizer, EOS))
    learned.append(True)
    return ids, learned


def loss_of(
    hidden_states: Any, output: Any, batches: Sequence[Batch], device: str
) -> tuple[Tensor, Mapping[str, float]]:
    """Return mean cross-entropy of the learned tokens; other logits are not computed."""
    total, right, count = torch.zeros((), device=device), 0, 0
    for batch in batches:
        ids, learned = batch.ids.to(device), batch.learned.to(device)[:, 1:]
        hidden = hidden_states(input_ids=ids[:, :-1], use_cache=False).last_hidden_state[learned]
        logits = output(hidden)
        target = ids[:, 1:][learned]
        total = total + torch.nn.functional.cross_entropy(logits, target, reduction="sum")
        right += int((logits.argmax(-1) == target).sum())
        count += len(target)
    loss = total / count
    return loss, {"loss": loss.item(), "right": right / count}


def _pad(rows: Sequence[tuple[list[int], list[bool]]]) -> Batch:
    """Pad on the right, which needs no attention mask because attention is causal."""
    width = max(len(ids) for ids, _ in rows)
    return Batch(
        torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows]),
        torch.tensor([marks + [False] * (width - len(marks)) for _, marks in rows]),
    )
