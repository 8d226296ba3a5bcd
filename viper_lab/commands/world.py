"""``viper lab world``: render, question, train and score the embedded world."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from viper.commands.lazy_group import LazyGroup
from viper.commands.options import (
    SEED,
    OutPath,
    ProfileChoice,
    open_profile,
    option,
    options_as,
    seed_option,
)
from viper.commands.terminal import counter
from viper.errors import EXIT_OK, UsageError
from viper_lab.recipes import RECIPES, recipe
from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.vocabulary import SPLITS


@click.group(cls=LazyGroup, below=("world", "lab.world"))
def world() -> None:
    """Render, question, train and score the embedded world."""


@dataclass(frozen=True, kw_only=True)
class RenderOptions:
    """Options of ``viper lab world render``."""

    # fmt: off
    split: str | None = option("--split", type=click.Choice(SPLITS),
        help="Split of the scenes. By default val.")
    index: int | None = option("--index", type=click.IntRange(min=0),
        help="Number of the first scene of the split to render. By default 0.")
    seed: int | None = option("--seed", type=click.IntRange(min=0),
        help="Render the scene of this seed (see its JSON file), instead of --split and --index.")
    count: int = option("--count", type=click.IntRange(1, 100_000), default=1,
        help="Number of scenes.")
    out: Path = option("--out", type=OutPath(), required=True,
        help="Folder for a PNG file and a JSON file of each scene.")
    # fmt: on


@world.command(short_help="Render scenes with their ground truth.")
@options_as(RenderOptions)
def render(options: RenderOptions) -> int:
    """Render scenes and write their exact ground truth beside them.

    The JSON file holds the scene. For each object it holds the visible box (x0, y0, x1, y1 in
    pixels from the top-left corner), the depth and the visible share.
    """
    from PIL import Image

    from viper_lab.world.layout import sample_scene
    from viper_lab.world.render import render_scene
    from viper_lab.world.splits import scene_index, split_of
    from viper_lab.world.stills import truth_record

    split, index, out = options.split or "val", options.index or 0, options.out
    if options.seed is not None:
        if options.split is not None or options.index is not None:
            raise UsageError(
                f"--seed {options.seed} names one scene; leave out --split and --index, or give "
                "--index instead of --seed"
            )
        split, index = split_of(options.seed), scene_index(options.seed)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {out}: {error.strerror}; choose another"
        ) from None
    for number in range(index, index + options.count):
        stem = out / f"{split}-{number:06d}"
        rendered = render_scene(sample_scene(split, number))
        Image.fromarray(rendered.image).save(f"{stem}.png")
        Path(f"{stem}.json").write_text(json.dumps(truth_record(rendered), indent=1) + "\n")
        click.echo(f"{stem}.png")
    return EXIT_OK


@world.command(short_help="Draw queries about scenes and videos.")
@click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True,
              help="Split of the queries.")  # fmt: skip
@seed_option("Random seed for the queries.")
@click.option("--family", type=click.Choice(FAMILIES),
              help="Family of queries. By default all families.")  # fmt: skip
@click.option("--count", type=click.IntRange(1), default=10, show_default=True,
              help="Number of queries for each family.")  # fmt: skip
@click.option("--programs", is_flag=True, help="Print the canonical program of each query.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def questions(
    split: str, seed: int, family: str | None, count: int, programs: bool, as_json: bool
) -> None:
    """Draw queries about new scenes and videos, with their answers."""
    from viper_lab.world.queries.generate import generate
    from viper_lab.world.queries.programs import gold_program

    for name in (family,) if family else FAMILIES:
        for sample in generate(name, split, seed, count):
            program = gold_program(sample.meaning, task=sample.task)
            if as_json:
                record = sample.to_json() | ({"program": program} if programs else {})
                click.echo(json.dumps(record))
                continue
            options = f"  [{'; '.join(sample.options)}]" if sample.options else ""
            answer = sample.answer_text
            if sample.box is not None:
                answer = f"box ({', '.join(f'{value:.0f}' for value in sample.box)})"
            click.echo(f"{sample.sample_id}  {sample.text}{options}  -> {answer}")
            if programs:
                click.echo(f"{program}\n")


@world.command(short_help="Write a catalogue of designs, with questions about it.")
@click.argument("out", type=OutPath())
@click.option("--split", type=click.Choice(SPLITS), default="val", show_default=True,
              help="Split of the catalogue.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 800), default=0, show_default=True,
              help="Number of the catalogue of the split.")  # fmt: skip
@click.option("--designs", type=click.IntRange(20, 150), default=120, show_default=True,
              help="Number of entries of the catalogue.")  # fmt: skip
@click.option("--questions", "count", type=click.IntRange(0, 100_000), default=40,
              show_default=True, help="Number of questions, each with an image.")  # fmt: skip
def knowledge(out: Path, split: str, seed: int, designs: int, count: int) -> None:
    """Write a knowledge world to OUT: reference images, texts, and questions that need both.

    \b
    viper lab world knowledge lore
    viper setup index images lore/gallery
    viper setup index text lore/texts.jsonl
    viper run lore/questions/0002.png "what do people of …?" --strategy seek
    """
    from viper_lab.world.knowledge.write import write_world

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: exists and is not empty; name a new folder")
    total = 0
    for part, number in write_world(out, split, seed, designs, count):
        total += number
        click.echo(f"{part}: {number:,}", err=True)
    for first in (out / "questions.jsonl").read_text("utf-8").splitlines()[:1]:
        question = json.loads(first)
        click.echo(f"{out / question['image']}: {question['text']} -> {question['answer']}")


@world.command(short_help="Train an embedded model.")
@click.argument("role", type=click.Choice(tuple(RECIPES)))
@click.option("--out", type=OutPath(), required=True,
              help="Folder for the weights, in the format of from_pretrained.")  # fmt: skip
@click.option(
    "--work", type=OutPath(), default=Path(".work"), show_default=True,
    help="Folder for checkpoints and rendered data; training continues from its checkpoint.",
)  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="Device: cpu, cuda, cuda:1, mps.")
@click.option("--steps", type=click.IntRange(1),
              help="Number of optimiser steps. By default that of the recipe.")  # fmt: skip
@seed_option("Random seed for data and training.")
def train(role: str, out: Path, work: Path, device: str, steps: int | None, seed: int) -> None:
    """Train ROLE on newly rendered data, write its weights and print its scores.

    Progress goes to stderr. Ctrl-C keeps the last checkpoint, and the same command continues.
    """
    from viper_lab.recipes.optim import TrainOptions

    if device != "cpu":
        import torch

        try:
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError) as error:
            line = str(error).splitlines()[0]
            problem = f"device {device!r} cannot be used ({line}); known here: cpu"
            raise UsageError(problem) from None
    out.mkdir(parents=True, exist_ok=True)
    reached = recipe(role)(TrainOptions(out, work, device, steps, seed % 2**32))
    for name, value in reached.items():
        click.echo(f"{name:<28} {value:.4f}")


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ProfileChoice):
    """Options of ``viper lab world score``."""

    # fmt: off
    split: Literal["train", "val", "test"] = option("--split", default="test",
        help="Split of the queries.")
    seed: int = option("--seed", type=SEED, default=0, help="Random seed for the queries.")
    limit: int = option("--limit", type=click.IntRange(3, 100_000), default=600,
        help="Number of queries, the same for each family.")
    baselines: bool = option("--baselines", default=False, show_default=False,
        help="Score the baselines without programs as well.")
    vqa_baseline: Path | None = option("--vqa-baseline",
        help="Weights of viper lab world train vqa-baseline, for --baselines.")
    perception: bool = option("--perception/--no-perception", default=True,
        help="Score each vision model alone as well.")
    examples: bool = option("--examples/--zero-shot", default=True,
        help="Show the in-context examples of the profile.")
    workers: int = option("--workers", type=click.IntRange(1, 64), default=16,
        help="Number of queries to answer at the same time.")
    as_json: bool = option("--json", default=False, show_default=False,
        help="Print one JSON object.")
    # fmt: on


@world.command(short_help="Score the embedded models on new queries.")
@options_as(ScoreOptions)
def score(options: ScoreOptions) -> int:
    """Answer new queries of the embedded world and print the scores.

    Every value has n and a 95 % interval. Hashes of the weights identify the models.
    """
    profile = open_profile(options)
    from viper.evaluate.evaluation import model_ids
    from viper.reasoner import Reasoner
    from viper.schema import to_json
    from viper_lab.scores.perception import perception_report
    from viper_lab.scores.world import ScoreRequest, draw, report, score_samples

    split, seed, limit = options.split, options.seed, options.limit
    if options.vqa_baseline is not None and not (options.vqa_baseline / "config.json").is_file():
        raise UsageError(
            f"{options.vqa_baseline}: no weights there; make them with viper lab world train "
            f"vqa-baseline --out {options.vqa_baseline}"
        )
    with_baselines = options.baselines or options.vqa_baseline is not None
    request = ScoreRequest(
        split, seed, limit, with_baselines, options.vqa_baseline, options.workers
    )
    if not options.examples:
        profile = profile.without_examples()
    samples = draw(request)
    right = 0
    with Reasoner(profile) as reasoner:
        with counter("answering", len(samples)) as advance:

            def on_done(item: Any) -> None:
                nonlocal right
                right += item.right
                advance(f"{right} right")

            scored = score_samples(reasoner, samples, request, on_done)
        figures = {
            "split": split,
            "seed": seed,
            "profile": profile.name,
            "models": model_ids(reasoner),
            **report(scored, request),
        }
        if options.perception:
            toolbox = reasoner.components.toolbox
            figures["perception"] = perception_report(toolbox, split, seed, limit // 2)
    plain = to_json(figures)
    click.echo(json.dumps(plain) if options.as_json else "\n".join(_lines(plain)))
    return EXIT_OK


def _lines(figures: Any, indent: int = 0) -> list[str]:
    """Return nested figures as aligned lines of text, one for each estimate."""
    lines = []
    pad = "  " * indent
    for name, value in figures.items():
        label = f"{pad}{name:<{max(4, 34 - 2 * indent)}}"
        if isinstance(value, dict) and {"value", "n", "low", "high"} <= set(value):
            low, high = value["low"], value["high"]
            lines.append(f"{label} {value['value']:.3f}  [{low:.3f}, {high:.3f}]  n={value['n']}")
        elif isinstance(value, dict):
            lines += [f"{pad}{name}", *_lines(value, indent + 1)]
        else:
            lines.append(f"{label} {value}")
    return lines
