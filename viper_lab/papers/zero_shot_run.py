"""The whole of ``viper lab reproduce zero-shot``: tables, then claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viper.strategies.base import Components
from viper_lab.papers import zero_shot
from viper_lab.papers.cell_runner import Cell, CellRunner, Scale
from viper_lab.papers.job import PaperJob, second_writer
from viper_lab.papers.parts import Part, WorldPart, set_part
from viper_lab.papers.renamed_api import RENAMINGS, renamed_api
from viper_lab.papers.result import Reproduction
from viper_lab.papers.tables import Results, Table, cells_of, gains
from viper_lab.papers.zero_shot_claims import ZeroShotParts, judged
from viper_lab.world.queries.meaning import FAMILIES

TITLE = "Zero-shot programmers (Stanić et al. 2024)"

# End-to-end strategies for each task.
BASELINES = {"ground": ("detector",), "question": ("vqa", "llm"), "choice": ("captions", "llm")}

THRESHOLD = "detector.threshold"

# Default factor of a start threshold that is off, and the greatest threshold that it gives.
START_OFF, MOST_THRESHOLD = 2.0, 0.95


class ZeroShotStudy(ZeroShotParts):
    """The tables, and their cells to rows."""

    @property
    def renamed(self) -> Part | None:
        """Return the part on which the API's routines are renamed, or None to skip this."""
        return self.grounding[0] if self.grounding and not self.quick else None

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
            results.gains += gains(runner, table, self.parts)
        worlds = [part for part in self.parts if isinstance(part, WorldPart)]
        vague = zero_shot.vague_queries(worlds, runner.scale.seeds) if worlds else []
        results.measure(zero_shot.VagueBench(runner), zero_shot.VAGUE, vague)
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
        )


def study_of(
    runner: CellRunner, parts: Sequence[Part], *, quick: bool, start_off: float = START_OFF
) -> ZeroShotStudy:
    """Return the tables for these parts. Samples are drawn to read their tasks.

    Args:
        start_off: factor by which the detector's threshold is off in a further self-tuning.
    """
    seed, *_ = runner.scale.seeds
    samples_of = {part.name: runner.test_samples(part, seed).samples for part in parts}
    tasks = {name: {sample.task for sample in samples} for name, samples in samples_of.items()}
    grounding = [part for part in parts if "ground" in tasks[part.name]]
    names = [part.name for part in grounding]
    tables = [zero_shot.ABLATION, zero_shot.KEPT]
    if grounding:
        tables.append(zero_shot.self_tuning(names))
    if not quick:
        tables += _more_tables(runner, tasks, names, start_off)
    return ZeroShotStudy(parts, grounding, tables, quick)


def _more_tables(
    runner: CellRunner, tasks: Mapping[str, set[str]], grounding: Sequence[str], start_off: float
) -> Iterator[Table[Cell]]:
    baselines = {
        name: [cell for task in sorted(own) for cell in BASELINES.get(task, ())]
        for name, own in tasks.items()
    }
    yield zero_shot.baselines(baselines)
    yield from (zero_shot.API_BY_EXAMPLES, zero_shot.NUMBER_OF_EXAMPLES, zero_shot.MINED)
    yield from (zero_shot.TRIALS_TABLE, zero_shot.SHOTS, zero_shot.temperatures(), zero_shot.VOTING)
    schedule = runner.writers["main"].toolbox.settings.sensitivities.get(THRESHOLD)
    if grounding and schedule is not None:
        middle = schedule.start if schedule.fixed is None else schedule.fixed
        values = [round(middle * factor, 3) for factor in (0.5, 0.75, 1.0, 1.5, 2.0)]
        yield zero_shot.thresholds(THRESHOLD, values, grounding)
        start = min(MOST_THRESHOLD, round(middle * start_off, 3))
        yield zero_shot.self_tuning_from(THRESHOLD, start, grounding)
    if "second" in runner.writers:
        yield zero_shot.SECOND


@dataclass(frozen=True)
class ZeroShotJob(PaperJob):
    """``viper lab reproduce zero-shot``.

    Attributes:
        pool: labelled samples of each part and seed.
        second: profile of another language model.
        start_off: see :func:`study_of`.
    """

    pool: int
    shots_split: str
    second: str | None
    start_off: float = START_OFF

    def scale(self) -> Scale:
        return replace(super().scale(), pool=self.pool)

    def writers(self) -> dict[str, Components]:
        main = self.options.opened().components()
        writers = {"main": main}
        for renaming in RENAMINGS:
            renamed = self.options.opened(api=renaming.api).components().with_models(llm=main.llm)
            writers[renaming.writer] = replace(renamed, toolbox=main.toolbox)
        return writers | second_writer(self.options, self.second, main)

    def study(self, runner: CellRunner) -> ZeroShotStudy:
        o = self.options
        if o.is_world:
            parts: list[Part] = [WorldPart(name, o.split or "val") for name in FAMILIES]
        else:
            parts = [set_part(o.set_name, o.root, o.split, self.shots_split)]
        return study_of(runner, parts, quick=o.quick, start_off=self.start_off)
