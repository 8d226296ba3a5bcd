"""The whole of ``viper lab reproduce zero-shot``: tables, then claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from viper.data.registry import training_split
from viper.errors import UsageError
from viper.strategies import strategy
from viper.strategies.base import Components
from viper.strategies.end_to_end import EndToEndStrategy
from viper_lab.papers import zero_shot
from viper_lab.papers.cell_runner import Cell, CellRunner, Scale
from viper_lab.papers.job import PaperJob, second_writer
from viper_lab.papers.parts import Part, WorldPart, set_part
from viper_lab.papers.renamed_api import OLD, RENAMINGS, renamed_api
from viper_lab.papers.result import Reproduction
from viper_lab.papers.tables import Results, Table, cells_of
from viper_lab.papers.zero_shot import Ablation
from viper_lab.papers.zero_shot_claims import ZeroShotParts, judged
from viper_lab.world.queries.meaning import FAMILIES

TITLE = "Zero-shot programmers (Stanić et al. 2024)"

# End-to-end strategies of table 1 for each task.
BASELINES = {"ground": ("detector",), "question": ("vqa", "llm"), "choice": ("captions", "llm")}

THRESHOLD = "detector.threshold"

# Default factor of a start threshold that is off, and the greatest threshold that it gives.
START_OFF, MOST_THRESHOLD = 2.0, 0.95


class ZeroShotStudy(ZeroShotParts):
    """The tables, and their cells to rows."""

    @property
    def renamed(self) -> Part | None:
        """Return the part on which the API's routines are renamed, or None to skip this."""
        is_measured = self.grounding and not self.quick and self.ablation == OLD
        return self.grounding[0] if is_measured else None

    def cells(self) -> list[tuple[Cell, Part]]:
        """Return every cell with each of its parts, once."""
        cells = cells_of(self.tables, self.parts)
        if self.renamed is not None:
            cells += [(renaming.cell, self.renamed) for renaming in RENAMINGS]
        return cells

    def reproduce(self, runner: CellRunner) -> Reproduction:
        """Answer everything that is not stored yet, and judge it."""
        results = Results(self.quick)
        for table in self.tables:
            results.rows += zero_shot.entries(runner, table, self.parts)
            results.gains += zero_shot.gains(runner, table, self.parts)
        worlds = [part for part in self.parts if isinstance(part, WorldPart)]
        vague = zero_shot.vague_queries(worlds, runner.scale.seeds) if worlds else []
        results.measure(zero_shot.VagueBench(runner), self.ablation.vague, vague)
        renamed = None
        if self.renamed is not None:
            renamed = renamed_api(runner, self.renamed)
            results.gains += renamed.gains.values()
        return results.judged(
            TITLE,
            judged(runner, self, renamed),
            runner.model_ids(),
            runner.scale.seeds,
            samples=runner.scale.samples,
            pool=runner.scale.pool,
            api=self.ablation.api,
        )


@dataclass(frozen=True)
class Choices:
    """What the tables are about.

    Attributes:
        ablation: cells of both APIs.
        start_off: factor by which the detector's threshold is off in a further self-tuning.
        baselines: strategies of table 1; by default those of the paper.
    """

    ablation: Ablation = field(default_factory=Ablation)
    start_off: float = START_OFF
    baselines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.baselines:
            if not isinstance(strategy(name), EndToEndStrategy):
                raise UsageError(
                    f"--strategy {name}: table 1 compares with strategies that write no program, "
                    "as detector, vqa, captions, description, llm"
                )

    def baselines_for(self, task: str, media: str) -> Sequence[str]:
        """Return the strategies that answer such queries without a program."""
        if not self.baselines:
            return BASELINES.get(task, ())
        made = {name: strategy(name) for name in self.baselines}
        return [
            name
            for name, each in made.items()
            if isinstance(each, EndToEndStrategy) and task in each.tasks and media in each.media
        ]


def study_of(
    runner: CellRunner, parts: Sequence[Part], *, quick: bool, choices: Choices | None = None
) -> ZeroShotStudy:
    """Return the tables for these parts. Samples are drawn to read their tasks."""
    choices = choices or Choices()
    seed, *_ = runner.scale.seeds
    samples_of = {part.name: runner.test_samples(part, seed).samples for part in parts}
    kinds = {
        name: sorted({(sample.task, sample.media) for sample in samples})
        for name, samples in samples_of.items()
    }
    grounding = [part for part in parts if "ground" in dict(kinds[part.name])]
    names, cells = [part.name for part in grounding], choices.ablation
    tables = [cells.table_2, cells.kept]
    if grounding:
        tables.append(cells.self_tuning(names))
    if not quick:
        tables += _more_tables(runner, kinds, names, choices)
    return ZeroShotStudy(parts, grounding, tables, quick, cells)


def _more_tables(
    runner: CellRunner,
    kinds: Mapping[str, Sequence[tuple[str, str]]],
    grounding: Sequence[str],
    choices: Choices,
) -> Iterator[Table[Cell]]:
    cells, components = choices.ablation, runner.writers["main"]
    baselines = {
        name: list(dict.fromkeys(each for kind in own for each in choices.baselines_for(*kind)))
        for name, own in kinds.items()
    }
    yield cells.baselines(baselines)
    yield from (cells.figure_2, cells.figure_3, cells.mined, cells.figure_4, cells.shots)
    yield cells.temperatures(components.settings.temperature)
    yield cells.voting
    schedule = components.toolbox.settings.sensitivities.get(THRESHOLD)
    if grounding and schedule is not None:
        middle = schedule.start if schedule.fixed is None else schedule.fixed
        values = [round(middle * factor, 3) for factor in (0.5, 0.75, 1.0, 1.5, 2.0)]
        yield cells.thresholds(THRESHOLD, values, grounding)
        start = min(MOST_THRESHOLD, round(middle * choices.start_off, 3))
        yield cells.self_tuning_from(THRESHOLD, start, grounding)
    if "second" in runner.writers:
        yield cells.second


@dataclass(frozen=True)
class ZeroShotJob(PaperJob):
    """``viper lab reproduce zero-shot``.

    Attributes:
        pool: labelled samples of each part and seed.
        shots_split: of a data set that is not the world; None takes its training split.
        second: profile of another language model.
    """

    pool: int
    shots_split: str | None
    second: str | None
    start_off: float = START_OFF
    baselines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _ = self.choices  # a wrong one ends here, before models load

    @property
    def choices(self) -> Choices:
        """Return what the tables are about.

        Raises:
            UsageError: an API or a strategy that nothing can be compared with.
            UnknownNameError: no such strategy.
        """
        ablation = Ablation(self.options.profile.api or Ablation.api)
        return Choices(ablation, self.start_off, self.baselines)

    def scale(self) -> Scale:
        return replace(super().scale(), pool=self.pool)

    def writers(self) -> dict[str, Components]:
        main = self.options.opened().components()
        writers = {"main": main}
        for renaming in RENAMINGS:
            renamed = self.options.opened(api=renaming.api).components().with_models(llm=main.llm)
            writers[renaming.writer] = replace(renamed, toolbox=main.toolbox)
        return writers | second_writer(self.options, self.second, main)

    def parts(self) -> list[Part]:
        """Return the families of the world, or the data set as a whole.

        Raises:
            UsageError: no split to mine from is named, and none is for training.
        """
        o = self.options
        if o.is_world:
            return [WorldPart(name, o.split or "val") for name in FAMILIES]
        given = self.shots_split
        shots = given or training_split(o.set_name, alike=True, option="--shots-split")
        return [set_part(o.set_name, o.root, o.split, shots)]

    def study(self, runner: CellRunner) -> ZeroShotStudy:
        return study_of(runner, self.parts(), quick=self.options.quick, choices=self.choices)
