"""``viper lab reproduce trust``: what answers say about themselves, and what verification finds.

Measured on the embedded world, whose truth is exact: warnings about foreign pictures, correction on
evidence against correction on failures, confidence, abstention, and programs that are wrong though
their answer is right.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from viper.agreement import is_correct
from viper.commands.options import open_profile
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper.evaluate.calibration import risk_coverage
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.intervals import Estimate, OverSeeds, proportion
from viper.evaluate.sample_result import SampleResult
from viper.models.media import media_from
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Query
from viper.strategies.base import Components, RunContext
from viper.strategies.confidence import PLAIN, VERIFIED
from viper.strategies.exact import ExactInput
from viper.strategies.examples import ExampleStore
from viper.strategies.verification import INPUTS, Behaviour, behaviour
from viper_lab.datasets.world import world_media, world_sample
from viper_lab.faults.injection import SolvedQuery, inject
from viper_lab.papers.cell_runner import Cell, CellRunner
from viper_lab.papers.job import PaperJob
from viper_lab.papers.result import Claim, Reproduction, TableCell, in_percent, in_points
from viper_lab.papers.tables import Results, compared, gain
from viper_lab.scores.outside import QUERIES, outside_pictures
from viper_lab.world.exact_inputs import exact_inputs
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import WorldSample

RULE = Cell("correction on failures", RunOptions(tune_on_evidence=False))
DEFAULT = Cell("correction on evidence", RunOptions())
CHECKED = Cell("verified", RunOptions(verify=True))
_SAMPLED = RunOptions(votes=5, temperature=0.7, retry_temperature=0.7)
VOTED = Cell("5 programs at .7, plain vote", _SAMPLED)
VOTED_CHECKED = Cell("5 programs at .7, verified", _SAMPLED.changed(verify=True))

RISK = 0.05
# Confidence below which an answer counts as doubted.
DOUBTED = 0.5

# Number of failed exact inputs from which a program counts as wrong.
LEAST_FAILED = 2

# Least number of wrong programs with a right answer to judge whether verification halves them.
LEAST_WRONG = 10

_NO_ANSWER = "no answer"


@dataclass(frozen=True)
class TrustPart:
    """The explicit queries of one family of the world.

    Attributes:
        examples: those of the profile, which the shipped writer is used to.
    """

    name: str
    split: str
    examples: ExampleStore

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        spec = DatasetSpec(None, f"{self.split}:{self.name}", seed)
        return Evaluation("world", spec, limit, (seed,))

    def shots(self, seed: int, limit: int) -> Evaluation:
        return replace(self, split="train").evaluation(seed, limit)

    def equipped(self, components: Components, seed: int) -> Components:
        return replace(components, examples=self.examples)


@dataclass
class TrustStudy:
    """Cells on the families, and what they come to."""

    parts: Sequence[TrustPart]
    quick: bool

    def cells(self) -> list[tuple[Cell, TrustPart]]:
        """Return every cell with its part, once."""
        cells = (RULE, DEFAULT, CHECKED, VOTED, VOTED_CHECKED)
        return [(cell, part) for part in self.parts for cell in cells]

    def reproduce(self, runner: CellRunner) -> Reproduction:
        """Answer everything that is not stored yet, and judge it."""
        results, parts = Results(self.quick), self.parts
        correction = compared("correction", [RULE, DEFAULT], DEFAULT)
        verification = compared("verification", [VOTED, VOTED_CHECKED], VOTED_CHECKED)
        for table in (correction, verification):
            results.measure(runner, table, parts)
        claims = [*self._outside(runner)]
        step = (RULE.name, DEFAULT.name)
        gains = {part.name: gain(runner, correction, step, [part]) for part in parts}
        video = gains.get("video")
        claims.append(Claim.of_gain("correction on evidence gains on video", video))
        least = min((each.difference.value for each in gains.values() if each), default=0.0)
        claims.append(
            Claim("no family loses more than 1 point by it", least >= -0.01, f"{100 * least:+.1f}")
        )
        for cell, mode in ((DEFAULT, PLAIN), (CHECKED, VERIFIED)):
            limit = _limit(runner.writers["main"], mode)
            rows = [row for part in parts for row in runner.all_results(cell, part)]
            found, own = _confidence(cell.name, rows, limit)
            results.rows += found
            claims += own if cell is CHECKED else []
        programs = Programs(runner)
        found, own = programs.spurious(parts)
        results.rows += found
        claims += own
        step = (VOTED.name, VOTED_CHECKED.name)
        accuracy = gain(runner, verification, step, parts)
        if accuracy is not None:
            reason = f"{in_points(accuracy.difference)}, n = {accuracy.difference.n:,}"
            holds = accuracy.difference.high >= 0
            claims.append(Claim("verified answers are as accurate as a plain vote", holds, reason))
        found, own = programs.faults(parts, 12 if self.quick else 40)
        results.rows += found
        claims += own
        models, seeds = runner.model_ids(), runner.scale.seeds
        return results.judged("Answers that know their limits", claims, models, seeds)

    def _outside(self, runner: CellRunner) -> Iterator[Claim]:
        """Ask about pictures that are not of the world."""
        queries = QUERIES[:1] if self.quick else QUERIES
        reasoner = Reasoner(self.parts[0].equipped(runner.writers["main"], 0), preload=False)
        answers = [
            reasoner.run(pixels, query, trials=1)
            for _, pixels in outside_pictures()
            for query in queries
        ]
        told = [result.answer is None or bool(result.warnings) for result in answers]
        claim = "98 % of answers about foreign pictures have a warning, or there is none"
        yield Claim.of_share(claim, proportion(sum(told), len(told)), 0.98)


def _limit(components: Components, mode: str) -> float | None:
    calibration = components.confidence.get(mode)
    return None if calibration is None else calibration.limit(RISK)


def _confidence(
    name: str, rows: Sequence[SampleResult], limit: float | None
) -> tuple[list[TableCell], list[Claim]]:
    """Return what warnings and confidence tell of right and wrong answers."""
    table = "what answers say of themselves"
    right = [is_correct(row.score) for row in rows]
    told = [_is_doubted(row) for row in rows]
    wrong_told = proportion(sum(t for t, r in zip(told, right, strict=True) if not r),
                            right.count(False))  # fmt: skip
    right_told = proportion(sum(t for t, r in zip(told, right, strict=True) if r),
                            right.count(True))  # fmt: skip
    cells = [
        _share(table, name, "wrong: warning, doubt or none", wrong_told),
        _share(table, name, "right: warning or doubt", right_told),
    ]
    claims = [
        Claim.of_share("60 % of wrong answers have a warning or doubt, or are none", wrong_told,
                  0.6),
        _at_most("of right answers at most 8 %", right_told, 0.08),
    ]  # fmt: skip
    known = [(row.prediction.confidence, is_correct(row.score)) for row in rows
             if row.prediction is not None and row.prediction.confidence is not None]  # fmt: skip
    if not known:
        claims.append(Claim("calibration", None, "the profile is not calibrated"))
        return cells, claims
    confidence, hits = zip(*known, strict=True)
    measured = risk_coverage(confidence, hits)
    cells += [
        _share(table, name, "calibration error", measured.calibration_error),
        _share(table, name, "area of risk by coverage", measured.area),
    ]
    error = measured.calibration_error
    claims.append(Claim("calibration error of at most .05", error.high <= 0.05,
                        f"{error.value:.3f} [{error.low:.3f}, {error.high:.3f}]"))  # fmt: skip
    if limit is None:
        claims.append(Claim("abstention", None, f"no confidence promises a risk of {RISK:g}"))
        return cells, claims
    given = [hit for each, hit in known if each >= limit]
    coverage, risk = proportion(len(given), len(rows)), proportion(given.count(False), len(given))
    cells += [
        _share(table, name, "coverage at 5 % risk", coverage),
        _share(table, name, "risk of these", risk),
    ]
    claims.append(Claim.of_share("70 % are answered at a risk of 5 %", coverage, 0.7))
    claims.append(Claim("the risk of these is 5 % or less", risk.low <= RISK, in_percent(risk)))
    return cells, claims


def _is_doubted(row: SampleResult) -> bool:
    if row.prediction is None or any(mark.startswith("warning:") for mark in row.marks):
        return True
    confidence = row.prediction.confidence
    return confidence is not None and confidence < DOUBTED


def _share(table: str, name: str, family: str, estimate: Estimate) -> TableCell:
    note = f"[{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
    return TableCell(table, name, family, OverSeeds(estimate.value, None, 1), estimate.n, note)


def _at_most(claim: str, share: Estimate, most: float) -> Claim:
    """Return the claim that a share is at most this much, so that its interval lies below."""
    reason = f"{in_percent(share)}, n = {share.n:,}"
    if proportion(0, share.n).high >= most:
        return Claim(claim, None, f"{reason}: too few to judge")
    return Claim(claim, share.high < most, reason)


def _halved(before: Estimate, after: Estimate) -> Claim:
    claim = "verification halves the right answers from wrong programs"
    reason = f"{in_percent(before)} -> {in_percent(after)}, n = {before.n:,}, {after.n:,}"
    if before.value * before.n < LEAST_WRONG:
        return Claim(claim, None, f"{reason}: too few wrong programs to judge")
    return Claim(claim, after.value <= before.value / 2, reason)


class Programs:
    """Compares programs with the canonical ones on exact inputs that verification does not use."""

    def __init__(self, runner: CellRunner) -> None:
        self.runner, self.components = runner, runner.writers["main"]
        self._behaviours: dict[tuple[Query, str, bool], Behaviour] = {}

    def spurious(self, parts: Sequence[TrustPart]) -> tuple[list[TableCell], list[Claim]]:
        """Return how many right answers come from programs that fail exact inputs."""
        table, shares = "right answers whose program fails 2 of 20 exact inputs", {}
        cells = []
        for cell in (VOTED, VOTED_CHECKED):
            failing = []
            for part in parts:
                of_part = [self._fails(row, sample) for row, sample in self._right(cell, part)]
                cells.append(
                    _share(table, cell.name, part.name, proportion(sum(of_part), len(of_part)))
                )
                failing += of_part
            shares[cell.name] = proportion(sum(failing), len(failing))
            cells.append(_share(table, cell.name, "all", shares[cell.name]))
        before, after = shares[VOTED.name], shares[VOTED_CHECKED.name]
        return cells, [_halved(before, after)]

    def faults(self, parts: Sequence[TrustPart], each: int) -> tuple[list[TableCell], list[Claim]]:
        """Inject faults into canonical programs; compare these with the verified ones."""
        table = "programs that behave unlike the verified one"
        found: list[bool] = []
        alarms: list[bool] = []
        cells = []
        for part in parts:
            own: list[bool] = []
            for row, sample in list(self._samples(CHECKED, part))[:each]:
                gold = gold_program(sample.meaning, "abstract", sample.task)
                if not row.program:
                    continue
                alarms.append(self._differ(sample, gold, row.program))
                media, target = media_from(world_media(sample)()), world_sample(sample).target
                solved = SolvedQuery(sample.query, media, gold, target)
                fault = inject(self.components, solved, "program", Random(sample.sample_id))
                if fault is not None:
                    own.append(self._differ(sample, fault.case.trial.program, row.program))
            cells.append(_share(table, "injected fault", part.name, proportion(sum(own), len(own))))
            found += own
        detected = proportion(sum(found), len(found))
        false = proportion(sum(alarms), len(alarms))
        cells += [
            _share(table, "injected fault", "all", detected),
            _share(table, "canonical program", "all", false),
        ]
        return cells, [
            Claim.of_share("85 % of injected program faults are found", detected, 0.85),
            _at_most("false alarms of at most 5 %", false, 0.05),
        ]

    def _samples(self, cell: Cell, part: TrustPart) -> Iterator[tuple[SampleResult, WorldSample]]:
        for seed in self.runner.scale.seeds:
            drawn = generate(part.name, part.split, seed, self.runner.scale.samples)
            samples = {sample.sample_id: sample for sample in drawn}
            for row in self.runner.results(cell, part, seed):
                yield row, samples[row.sample_id]

    def _right(self, cell: Cell, part: TrustPart) -> Iterator[tuple[SampleResult, WorldSample]]:
        return (pair for pair in self._samples(cell, part) if is_correct(pair[0].score))

    def _fails(self, row: SampleResult, sample: WorldSample) -> bool:
        """Return whether a program differs from the canonical one on exact inputs with a truth."""
        gold = self._on_new_inputs(sample, gold_program(sample.meaning, "abstract", sample.task))
        own = self._on_new_inputs(sample, row.program or "")
        wrong = [a != b for a, b in zip(own, gold, strict=True) if b != _NO_ANSWER]
        return sum(wrong) >= LEAST_FAILED

    def _on_new_inputs(self, sample: WorldSample, program: str) -> Behaviour:
        return self._behaviour(sample, program, new=True)

    def _differ(self, sample: WorldSample, program: str, verified: str) -> bool:
        """Return whether verification tells a program from the one that it chose."""
        own, chosen = (self._behaviour(sample, each, new=False) for each in (program, verified))
        return own != chosen

    def _behaviour(self, sample: WorldSample, program: str, *, new: bool) -> Behaviour:
        query = replace(sample.query, sample_id=None)
        key = (query, program, new)
        if key not in self._behaviours:
            both = exact_inputs(query, 2 * INPUTS)
            inputs: Sequence[ExactInput] = both[INPUTS:] if new else both[:INPUTS]
            context = RunContext(query, both[0].media, self.components.settings, threading.Event())
            self._behaviours[key] = behaviour(self.components, context, program, inputs)
        return self._behaviours[key]


@dataclass(frozen=True)
class TrustJob(PaperJob):
    """``viper lab reproduce trust``."""

    def __post_init__(self) -> None:
        if not self.options.is_world:
            raise UsageError(
                f"--data is {self.options.set_name}; this reproduction needs the exact truth of "
                "world"
            )

    def writers(self) -> Mapping[str, Components]:
        """Return the writer of the profile."""
        return {"main": open_profile(self.options.profile).components()}

    def study(self, runner: CellRunner) -> TrustStudy:
        """Return the families of the split."""
        examples = open_profile(self.options.profile).components().examples
        split = self.options.split or "test"
        parts = [TrustPart(family, split, examples) for family in FAMILIES]
        return TrustStudy(parts, self.options.quick)
