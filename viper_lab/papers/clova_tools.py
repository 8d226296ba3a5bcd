"""Each tool alone on reserved concepts: right answers before and after its training.

All concepts are learned into one pool, from at most :data:`POSITIVES` positives each, and the same
questions are asked before and after, about new and about old concepts, on scenes of one split
(:mod:`viper_lab.scores.concepts`).

The detector and the segmenter are measured in both forms that they can learn in: as probes, which
the package uses, and as prompts of a decoder, as in the paper's supplement, secs. 8.2 and 8.3.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from viper.models.vision.prompt_pool import PromptPool
from viper.record import record_from_json
from viper.storage.files import write_file
from viper.tools.toolbox import Toolbox
from viper.tuning.soft_prompts.base import TOOLS, TunerOptions
from viper.tuning.tool_training import Sources, ToolTrainer
from viper_lab.papers.result import Gain, TableCell
from viper_lab.scores.concepts import vqa
from viper_lab.scores.concepts.measurement import ConceptGain, Questions, ToolAnswer, rows
from viper_lab.world.annotated import WorldStore
from viper_lab.world.found import WorldPictureSearch
from viper_lab.world.reserved import CONCEPTS

POSITIVES = 7

# Number in the names of stored outcomes; those of another measurement are not read.
FORM = 3

# Tools that can also learn as prompts of a decoder, and the name of their table.
DECODERS, DECODER_TABLE = ("loc", "seg"), "tools, prompts of a decoder"

# Takes as long as all other tools together.
_SLOW = "replace"

# Share of wrong pictures in the tables on validation.
NOISE = 0.3


@dataclass(frozen=True)
class ToolSetup:
    """How a tool is trained and asked.

    Attributes:
        count: questions about each concept; about old concepts ten times as many.
        wrong: share of wrong pictures, in tenths.
        decoder: see :class:`~viper.tuning.soft_prompts.base.TunerOptions`.
    """

    tool: str
    seed: int
    count: int = 30
    positives: int = POSITIVES
    wrong: float = 0.0
    validate: bool = True
    split: str = "val"
    concepts: tuple[str, ...] = tuple(CONCEPTS)
    decoder: bool = False


@dataclass(frozen=True)
class ToolOutcome:
    """What came of it.

    Attributes:
        new, old: questions and answers, before and after.
        seconds: of teaching, for each concept.
        kept_wrong, wrong: prompts that were trained on wrong pictures: kept, and in all.
        kept_good, good: the same of right ones.
        same_without: whether the taught tools, asked again without any stored result once the
            prompts are removed, give all answers of before.
    """

    new: tuple[Sequence[ToolAnswer], Sequence[ToolAnswer]]
    old: tuple[Sequence[ToolAnswer], Sequence[ToolAnswer]]
    seconds: Sequence[float]
    kept_wrong: int = 0
    wrong: int = 0
    kept_good: int = 0
    good: int = 0
    same_without: bool = False


def tool_outcome(
    toolbox: Toolbox, setup: ToolSetup, folder: Path, say: Callable[[str], None]
) -> ToolOutcome:
    """Teach a tool and test it, or read the outcome if the folder already holds it."""
    path = folder / f"{setup.tool}-{slug_of(setup)}-{FORM}.json"
    if path.is_file():
        return record_from_json(ToolOutcome, json.loads(path.read_text("utf-8")))
    folder.mkdir(parents=True, exist_ok=True)
    outcome = _measured(toolbox, setup, folder / f"pool-{slug_of(setup)}", say)
    write_file(path, json.dumps(asdict(outcome)))
    return outcome


def _measured(
    toolbox: Toolbox, setup: ToolSetup, folder: Path, say: Callable[[str], None]
) -> ToolOutcome:
    questions: Questions = importlib.import_module(f"viper_lab.scores.concepts.{setup.tool}")  # type: ignore[assignment]
    search = WorldPictureSearch(setup.wrong, setup.seed)
    pool = PromptPool(folder)
    if pool.kept():
        pool.remove(setup.tool)
    trainer = ToolTrainer(toolbox.models, pool, Sources(WorldStore(), search, setup.positives))
    options = TunerOptions(seed=setup.seed, validate=setup.validate, decoder=setup.decoder)
    new_toolbox = toolbox.with_soft_prompts(pool)
    before = asked_about(questions, toolbox, setup)
    seconds: list[float] = []
    counts: Counter[tuple[bool, bool]] = Counter()
    for concept in setup.concepts:
        say(f"teaching {setup.tool}: {concept}")
        began = time.perf_counter()
        if setup.tool == "vqa":
            data = vqa.training_data(toolbox, concept, setup.positives, setup.seed)
            result = trainer.learn("vqa", None, data, options)
        else:
            result = trainer.teach(setup.tool, concept, options)
        seconds.append(round(time.perf_counter() - began, 2))
        for prompt in result.trained:
            names = prompt.evidence.trained_on
            is_wrong = bool(setup.wrong and names and search.is_wrong_name(names[0]))
            counts[is_wrong, prompt.kept] += 1
    say(f"asking {setup.tool}")
    after = asked_about(questions, new_toolbox, setup)
    pool.remove(setup.tool)
    sizes = toolbox.settings.cache_entries, toolbox.settings.cache_mb
    repeated = asked_about(questions, new_toolbox.with_caches(*sizes), setup)
    pool.close()
    new, old = zip(before, after, strict=True)
    wrong, good = (counts[is_wrong, True] + counts[is_wrong, False] for is_wrong in (True, False))
    return ToolOutcome(
        new, old, seconds, counts[True, True], wrong, counts[False, True], good, repeated == before
    )


def asked_about(
    questions: Questions, toolbox: Toolbox, setup: ToolSetup
) -> tuple[list[ToolAnswer], list[ToolAnswer]]:
    """Return the answers about new and about old concepts."""
    split, count, seed = setup.split, setup.count, setup.seed
    new = [
        answer
        for concept in setup.concepts
        for answer in questions.about(toolbox, concept, split=split, count=count, seed=seed)
    ]
    return new, questions.about_old(
        toolbox, setup.concepts, split=split, count=10 * count, seed=seed
    )


@dataclass(frozen=True)
class ToolResults:
    """What single tools came to.

    Attributes:
        outcomes: by tool, one for each seed.
        noisy: of the matcher with wrong pictures, validated and not.
        entries, gains: as the tables have them.
    """

    outcomes: Mapping[str, Sequence[ToolOutcome]]
    noisy: tuple[Sequence[ToolOutcome], Sequence[ToolOutcome]] | None
    entries: Sequence[TableCell]
    gains: Sequence[Gain]


def measured_tools(
    toolbox: Toolbox,
    asked: ToolSetup,
    folder: Path,
    seeds: Sequence[int],
    say: Callable[[str], None],
    *,
    quick: bool,
) -> ToolResults:
    """Teach and ask every tool under every seed, the matcher with wrong pictures beside.

    Args:
        asked: questions and their split, for every tool.
        quick: under one seed, without the inpainter, wrong pictures and prompts of decoders.
    """

    def outcomes(name: str, setup: ToolSetup) -> list[ToolOutcome]:
        def tell(text: str) -> None:
            say(f"{name}: {text}")

        setups = [replace(setup, seed=seed) for seed in (seeds[:1] if quick else seeds)]
        return [tool_outcome(toolbox, each, folder, tell) for each in setups]

    taught = [tool for tool in TOOLS if not (quick and tool == _SLOW)]
    by_tool = {tool: outcomes("tools", replace(asked, tool=tool)) for tool in taught}
    rows, steps = tool_rows(list(by_tool.values()))
    if quick:
        return ToolResults(by_tool, None, rows, steps)
    decoders = [replace(asked, tool=tool, decoder=True) for tool in DECODERS]
    more, more_steps = tool_rows(
        [outcomes(DECODER_TABLE, each) for each in decoders], DECODER_TABLE
    )
    rows += more
    steps += more_steps
    setup = replace(asked, tool="match", wrong=NOISE)
    checked = outcomes("wrong pictures", setup)
    unchecked = outcomes("wrong pictures, not validated", replace(setup, validate=False))
    for name, outcome in (("validated", checked), ("not validated", unchecked)):
        more, more_steps = tool_rows([outcome], f"30 % of pictures wrong, {name}")
        rows += more
        steps += more_steps
    return ToolResults(by_tool, (checked, unchecked), rows, steps)


def tool_rows(
    outcomes: Sequence[Sequence[ToolOutcome]], name: str = "tools"
) -> tuple[list[TableCell], list[Gain]]:
    """Return rows and gains; one sequence a tool, an outcome for each seed."""
    entries: list[TableCell] = []
    gains: list[Gain] = []
    for by_seed in outcomes:
        for part in ("new", "old"):
            pairs = [getattr(outcome, part) for outcome in by_seed]
            for row in _together(pairs):
                for when, place in (("before", 0), ("after", 1)):
                    scores = [
                        [a.right for a in pair[place] if a.kind == row.kind] for pair in pairs
                    ]
                    entries.append(TableCell.of_scores(name, f"{row.kind}, {when}", part, scores))
                gains.append(Gain(name, row.kind, part, row.gain.difference))
    return entries, gains


def _together(
    pairs: Sequence[tuple[Sequence[ToolAnswer], Sequence[ToolAnswer]]],
) -> list[ConceptGain]:
    """Return the results of all seeds together. Scenes of different seeds count as different."""

    def answers(place: int) -> list[ToolAnswer]:
        by_seed = enumerate(pair[place] for pair in pairs)
        return [replace(a, sample=f"{seed} {a.sample}") for seed, own in by_seed for a in own]

    return rows(answers(0), answers(1))


def slug_of(setup: ToolSetup) -> str:
    """Return the name of a setup in file names, which existing folders already hold."""
    stored = repr(setup).replace("ToolSetup", "ToolCourse", 1).replace(", decoder=False", "")
    return hashlib.sha256(stored.encode()).hexdigest()[:12]
