"""The planner's score.

It compares programs written from plans with programs written directly, on queries of the
validation split about fresh scenes and clips. Answers are judged as metrics do
(:func:`viper.strategies.answers.is_desired`). The tools make no mistakes, so every error is one of
the writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viper.api.library import library_for
from viper.models.llm.messages import as_text
from viper.models.llm.protocol import LLM, Sampling
from viper.models.media import Media, media_from
from viper.prompting.builder import build_prompt
from viper.prompting.compact import END_OF_PROGRAM, compact_document
from viper.prompting.extract import extract_code
from viper.prompting.plans import build_plan_prompt, read_plan
from viper.sandbox import Sandbox
from viper.schema import Failure
from viper.strategies.answers import is_desired, read_answer
from viper.strategies.program import ENTRY, program_arguments
from viper_lab.datasets.world import world_sample
from viper_lab.recipes.writer_documents import listed_entries
from viper_lab.recipes.writer_score import load_llm
from viper_lab.world.clips import sample_clip
from viper_lab.world.layout import sample_scene
from viper_lab.world.oracle import Oracle
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.queries.sample import WorldSample
from viper_lab.world.render import render_scene
from viper_lab.world.scene import CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH

GREEDY = Sampling(max_tokens=320, stop=(END_OF_PROGRAM,))

# Frames of a blank clip; perfect tools need no pixels.
CLIP = (CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH, 3)


def evaluate(
    planner: Path | LLM,
    *,
    writer: Path | LLM,
    queries: int = 150,
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, float]:
    """Return shares of right answers.

    Keys: ``planned`` and ``direct``, and both for each family, ``planned/video``; ``plans`` is the
    share of replies that hold a plan.

    Args:
        planner: any language model or its folder; it also writes the programs of its plans.
        writer: writes programs directly.
    """
    asks, at_once = load_llm(planner), load_llm(writer)
    hits: dict[str, list[bool]] = {}
    with Sandbox(prelude=library_for("abstract").prelude()) as sandbox:
        for family in FAMILIES:
            for sample in generate(family, "val", seed, queries // len(FAMILIES)):
                tools, media = perfect(sample)
                for name, program, plan in _ways(asks, at_once, sample):
                    right = _is_right(sandbox, sample, program, tools, media)
                    hits.setdefault(name, []).append(right)
                    hits.setdefault(f"{name}/{family}", []).append(right)
                    if name == "planned":
                        hits.setdefault("plans", []).append(bool(plan))
                    if not right:
                        report(f"{name}: {sample.text} | {plan!r}\n{program}")
    return {name: sum(outcomes) / len(outcomes) for name, outcomes in sorted(hits.items())}


def perfect(sample: WorldSample) -> tuple[Oracle, Media]:
    """Return tools that know a sample's scene or clip, and its media."""
    if sample.family == "video":
        clip = sample_clip(sample.split, sample.media_index)
        blank = media_from(np.zeros(CLIP, np.uint8))
        return Oracle(objects=clip.objects, events=clip.events), blank
    rendered = render_scene(sample_scene(sample.split, sample.media_index))
    return Oracle(rendered), media_from(rendered.image)


def _ways(asks: LLM, at_once: LLM, sample: WorldSample) -> Iterator[tuple[str, str, str]]:
    """Yield name, program, and the plan that it follows ("" if none)."""
    entries = listed_entries("abstract", sample.task)
    reply = asks.generate([build_plan_prompt(sample.query, entries, style="compact")], GREEDY)
    plan = read_plan(reply[0][0].text)
    planned = build_prompt(sample.query, entries, plan=plan)
    yield "planned", _program(asks, as_text(planned)), plan
    prompt = compact_document(entries, sample.task, (), sample.text, sample.options)
    yield "direct", _program(at_once, prompt), ""


def _program(llm: LLM, prompt: str) -> str:
    return extract_code(llm.generate([prompt], GREEDY)[0][0].text)


def _is_right(
    sandbox: Sandbox, sample: WorldSample, program: str, tools: Oracle, media: Media
) -> bool:
    query = sample.query
    outcome = sandbox.run(program, tools=tools, entry=ENTRY, args=program_arguments(query, media))
    if not outcome.ok:
        return False
    read: Any = read_answer(outcome.value, query, media)
    target = world_sample(sample).target
    return not isinstance(read, Failure) and is_desired(read, target, query.task)
