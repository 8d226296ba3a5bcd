"""The ablation of Stanić et al. 2024: its tables 1 to 6 and figures 2 to 4, cell by cell.

What is measured stands here; how a cell is answered stands in
:mod:`viper_lab.papers.cell_runner`, how claims are judged in
:mod:`viper_lab.papers.zero_shot_claims`.

No cell sets a temperature, except in table 3: programs are written at the profile's, which
``paper-programmers`` sets to the paper's 0.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viper.ace.mining import zero_shot
from viper.errors import UsageError
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import RunOptions
from viper_lab.papers import tables
from viper_lab.papers.cell_runner import Cell, CellRunner, Mining, Scale
from viper_lab.papers.parts import Part, set_of
from viper_lab.papers.result import Gain, TableCell
from viper_lab.papers.tables import Table, by_name, chain, compared, stepped

TRIALS = 5

VIPERGPT = "vipergpt"

# One program, no examples, no correction, and none of the checks that the paper does not have.
BASE = zero_shot().changed(
    strategy="program", api=VIPERGPT, temperature=None, tune_on_evidence=False, on_misfit="accept"
)

# Temperatures of table 3.
TEMPERATURES = (0.0, 0.4, 0.8, 1.0)

# How many more samples show what self-tuning gains: only a few answers depend on it.
TUNING_TIMES = 4

# Runs of a program that are no trials of the method: a failed request is repeated at the endpoint,
# an event of a video is looked for among the options, or the answer comes from no program.
_NO_TRIALS = ("rerun", "look_for_options", "fallback")


def _varied(cell: Cell, name: str, mining: Mining | None = None, **options: object) -> Cell:
    """Return a cell that differs in some options, or in how its examples are mined."""
    return replace(
        cell, name=name, options=cell.options.changed(**options), mining=mining or cell.mining
    )


@dataclass(frozen=True)
class Ablation:
    """Cells and tables about ViperGPT's API and another one.

    Attributes:
        api: the other one; the paper's is ``abstract``.

    Raises:
        UsageError: both would be the same.
    """

    api: str = "abstract"

    def __post_init__(self) -> None:
        if self.api == VIPERGPT:
            raise UsageError(
                f"--api is {VIPERGPT}, which every table compares with; give the other API"
            )

    @property
    def mining(self) -> Mining:
        """Return how examples are mined: the paper draws one program for a sample and keeps any
        that was right.
        """
        return Mining(self.api, programs=4, agree=True)

    @property
    def vipergpt(self) -> Cell:
        return Cell("ViperGPT API", BASE)

    @property
    def plain(self) -> Cell:
        """Return the other API's cell without examples."""
        return _varied(self.vipergpt, f"+ {self.api} API", api=self.api)

    @property
    def ace(self) -> Cell:
        """Return the cell with the bank's first examples, as many as the profile shows."""
        return _varied(self.plain, "+ ACE", self.mining, examples=None, retrieval="fixed")

    @property
    def vipergpt_ace(self) -> Cell:
        """Return ViperGPT's API with examples that were mined from the same labelled samples."""
        mining = replace(self.mining, api=VIPERGPT)
        return _varied(self.ace, "ViperGPT API + ACE", mining, api=VIPERGPT)

    @property
    def debug(self) -> Cell:
        return _varied(self.ace, "+ self-debugging", trials=TRIALS)

    @property
    def tune(self) -> Cell:
        return _varied(self.debug, "+ self-tuning", self_tune=True)

    @property
    def steps(self) -> tuple[Cell, ...]:
        """Return the rows of table 2, each on top of the one before."""
        return (self.vipergpt, self.plain, self.ace, self.debug, self.tune)

    @property
    def apis(self) -> Mapping[str, tuple[Cell, Cell]]:
        """Return the cells of both APIs by name, without examples and with."""
        return {
            "ViperGPT API": (self.vipergpt, self.vipergpt_ace),
            f"{self.api} API": (self.plain, self.ace),
        }

    @property
    def at_random(self) -> Cell:
        return _varied(self.ace, "16 programs kept at random", replace(self.mining, scored=False))

    @property
    def untuned(self) -> Cell:
        cell = replace(self.debug, name="self-debugging, fixed thresholds")
        return replace(cell, times=TUNING_TIMES)

    @property
    def tuned(self) -> Cell:
        return replace(self.tune, name="self-debugging and self-tuning", times=TUNING_TIMES)

    def baselines(self, tasks: Mapping[str, Sequence[str]]) -> Table[Cell]:
        """Return table 1: end-to-end baselines, our zero-shot row and the full method.

        Args:
            tasks: each family's baseline strategies.
        """
        cells = {
            f"{name} ({family})": Cell(f"baseline {name} {family}", RunOptions(strategy=name))
            for family, strategies in tasks.items()
            for name in strategies
        }
        return Table("table 1", {**cells, "zero-shot": self.plain, "everything on": self.tune})

    @property
    def table_2(self) -> Table[Cell]:
        return stepped("table 2", self.steps, chain(self.steps))

    @property
    def vague(self) -> Table[Cell]:
        """Return what examples gain on the queries that only a convention decides (ours)."""
        return stepped("vague queries", [self.plain, self.ace], [(self.plain, self.ace)])

    @property
    def kept(self) -> Table[Cell]:
        """Return 16 examples kept by score, and 16 at random among those that ran (ours)."""
        return compared("kept", [self.ace, self.at_random], self.ace)

    @property
    def mined(self) -> Table[Cell]:
        """Return ways of mining; the paper's is the first."""
        several = replace(self.mining, agree=False)
        single = replace(several, programs=1)
        cells = {
            "1 program each": _varied(self.ace, "1 program each", single),
            "4 programs each": _varied(self.ace, "4 programs each", several),
            "4 programs each that agree": self.ace,
        }
        return Table("mined", cells, steps=chain(list(cells))[:-1])

    def self_tuning(self, families: Sequence[str]) -> Table[Cell]:
        """Return the last step of table 2 again, on more samples.

        Args:
            families: those that ground expressions.
        """
        return compared("self-tuning", [self.untuned, self.tuned], self.tuned, families)

    def self_tuning_from(self, name: str, value: float, families: Sequence[str]) -> Table[Cell]:
        """Return self-tuning from a threshold that was not chosen to be the best.

        Args:
            name: of the threshold.
            value: where both rows start; without self-tuning it stays.
            families: those that ground expressions.
        """
        untuned, tuned = (
            replace(cell, name=f"{cell.name}, from {name} {value:g}", thresholds={name: value})
            for cell in (self.untuned, self.tuned)
        )
        return compared("self-tuning, start off", [untuned, tuned], tuned, families)

    @property
    def figure_2(self) -> Table[Cell]:
        """Return both APIs, each without and with examples."""
        cells = {
            f"{title}{' + ACE' * number}": cell
            for title, both in self.apis.items()
            for number, cell in enumerate(both)
        }
        first, first_ace, other, other_ace = cells
        steps = [(first, first_ace), (other, other_ace), (first, other), (first_ace, other_ace)]
        return Table("figure 2", cells, steps=steps)

    @property
    def figure_3(self) -> Table[Cell]:
        """Return both APIs by their number of examples, also those most like the query (ours)."""
        cells = dict[str, Cell]()
        for title, (plain, ace) in self.apis.items():
            cells[f"{title}, 0 examples"] = plain
            for count in (1, 2, 4, 8, 16):
                name = f"{title}, {count} example{'s' * (count > 1)}"
                cells[name] = _varied(ace, name, examples=count)
            for count in (4, 8):
                name = f"{title} by BM25, {count} examples"
                cells[name] = _varied(ace, name, examples=count, retrieval="bm25")
        steps = [(f"{title}, 0 examples", f"{title}, 16 examples") for title in self.apis]
        return Table("figure 3", cells, steps=steps)

    @property
    def figure_4(self) -> Table[Cell]:
        """Return scores after 1 to 5 trials, of both APIs with their examples."""
        cells, steps = dict[str, Cell](), list[tuple[str, str]]()
        fixed = {"": False, ", dynamic threshold": True}
        for title, (_, ace) in self.apis.items():
            for threshold, tunes in fixed.items():
                for feedback in (False, True):
                    name = f"{title}, {('from scratch', 'feedback')[feedback]}{threshold}"
                    cells[name] = _varied(
                        ace, name, trials=TRIALS, self_tune=tunes, feedback=feedback
                    )
            scratch = f"{title}, from scratch"
            steps += [(f"{scratch}{each}", f"{title}, feedback{each}") for each in fixed]
            steps += [(scratch, f"{scratch}, dynamic threshold")]
        vipergpt, other = self.apis
        for way in ("from scratch", "from scratch, dynamic threshold"):
            steps.append((f"{vipergpt}, {way}", f"{other}, {way}"))
        # What table 2 has already is not answered again.
        other_ways = f"{other}, from scratch"
        cells |= {other_ways: self.debug, f"{other_ways}, dynamic threshold": self.tune}
        return Table("figure 4", cells, steps=steps, trials=True)

    @property
    def feedback_step(self) -> tuple[str, str]:
        """Return the rows of figure 4 that tell what feedback is worth."""
        return f"{self.api} API, from scratch", f"{self.api} API, feedback"

    def temperatures(self, own: float) -> Table[Cell]:
        """Return table 3: temperature of the language model.

        Args:
            own: that of the profile, at which all other tables are measured.
        """
        cells = dict[str, Cell]()
        for title, (_, ace) in self.apis.items():
            for value in TEMPERATURES:
                name = f"{title}, temperature {value:g}"
                cells[name] = ace if value == own else _varied(ace, name, temperature=value)
        return Table("table 3", cells)

    def thresholds(
        self, name: str, values: Sequence[float], families: Sequence[str]
    ) -> Table[Cell]:
        """Return table 4: a fixed threshold of the detector.

        Args:
            name: of the sensitivity.
            values: to try.
            families: whose programs look for objects.
        """
        cells = [
            replace(ace, name=f"{title}, {name} {value:g}", thresholds={name: value})
            for title, (_, ace) in self.apis.items()
            for value in values
        ]
        return Table("table 4", by_name(cells), tuple(families))

    @property
    def shots(self) -> Table[Cell]:
        """Return tables 5 and 6: which labelled samples are mined from, for both APIs."""
        cells, steps = dict[str, Cell](), list[tuple[str, str]]()
        for title, (plain, ace) in self.apis.items():
            assert ace.mining is not None
            cells[f"no examples, {title}"] = plain
            for name, mining in {
                "16 chosen": replace(ace.mining, shots=16, chosen=True),
                "16 random": replace(ace.mining, shots=16),
                "50 random": replace(ace.mining, shots=50),
            }.items():
                row = f"{name}, {title}"
                cells[row] = _varied(ace, row, mining)
            cells[f"100 random, {title}"] = ace
            steps += [(f"16 chosen, {title}", f"100 random, {title}")]
            steps += [(f"no examples, {title}", f"16 random, {title}")]
        return Table("tables 5 and 6", cells, steps=steps)

    @property
    def shots_step(self) -> tuple[str, str]:
        """Return the rows of tables 5 and 6 that tell whether anybody must choose shots."""
        return f"16 chosen, {self.api} API", f"100 random, {self.api} API"

    @property
    def second(self) -> Table[Cell]:
        """Return table 2 with another language model (sec. 3)."""
        cells = {
            f"second model: {cell.name}": replace(
                cell, name=f"second model {cell.name}", writer="second"
            )
            for cell in self.steps
        }
        return Table("second model", cells, steps=chain(list(cells)))

    @property
    def voting(self) -> Table[Cell]:
        """Return the most frequent of several answers (ours); later ones are sampled warm."""
        cells = {"one answer": self.tune, "5 votes": _varied(self.tune, "5 votes", votes=5)}
        return Table("voting", cells, steps=[("one answer", "5 votes")])


@dataclass(frozen=True)
class VagueQueries:
    """The vague queries of one set with conventions, about one part of the data or all.

    Attributes:
        set_name: as ``world-a``.
        name: what tables call them.
    """

    set_name: str
    parts: tuple[Part, ...]
    name: str


def vague_queries(parts: Sequence[Part], seeds: Sequence[int]) -> list[VagueQueries]:
    """Return the vague queries of every set that seeds ask, part by part, then of all parts."""
    return [
        VagueQueries(set_name, tuple(own), f"{name}, {set_name}")
        for set_name in sorted({set_of(seed) for seed in seeds})
        for name, own in [*((part.name, [part]) for part in parts), ("all", parts)]
    ]


@dataclass(frozen=True)
class VagueBench:
    """A runner whose results are the vague queries of a set."""

    runner: CellRunner

    @property
    def scale(self) -> Scale:
        return self.runner.scale

    def results(self, cell: Cell, part: VagueQueries, seed: int) -> list[SampleResult]:
        """Return the results of vague queries; none if the seed asks another set."""
        if set_of(seed) != part.set_name:
            return []
        results = [r for own in part.parts for r in self.runner.results(cell, own, seed)]
        return [result for result in results if result.groups.get("wording") == "vague"]

    def note(self, cell: Cell, part: VagueQueries) -> str:
        return ""


@dataclass(frozen=True)
class TrialBench:
    """A runner whose answers count as wrong if they took more trials.

    A trial is one execution of a program: of a new program, or of the same one after a threshold
    was lowered by a step.

    Source: Stanić et al. 2024, sec. 3.3 and figure 4.
    Differs: a run ends after ``TRIALS`` programs, not executions, because table 2 and figure 4
    share it; what needs more executions counts as wrong here. A program that is written again
    unchanged is not executed, and so is no trial.
    """

    runner: CellRunner
    trials: int = TRIALS

    @property
    def scale(self) -> Scale:
        return self.runner.scale

    def results(self, cell: Cell, part: Part, seed: int) -> list[SampleResult]:
        """Return the results of a cell, each with the score that it has after these trials."""
        results = self.runner.results(cell, part, seed)
        with self.runner.store_of(cell, part, seed) as store:
            traces = [store.trace(each.sample_id, each.seed) or {"trials": []} for each in results]
        executed = [
            sum(trial["correction"] not in _NO_TRIALS for trial in trace["trials"])
            for trace in traces
        ]
        return [
            replace(result, score=result.score if count <= self.trials else 0.0)
            for result, count in zip(results, executed, strict=True)
        ]

    def note(self, cell: Cell, part: Part) -> str:
        return self.runner.note(cell, part)


def entries(runner: CellRunner, table: Table[Cell], parts: Sequence[Part]) -> Iterator[TableCell]:
    """Yield the rows of a table, answering what is not stored yet."""
    if not table.trials:
        yield from tables.entries(runner, table, parts)
        return
    for name, cell in table.cells.items():
        for count in range(1, TRIALS + 1):
            row = f"{name}, {count} trial{'s' * (count > 1)}"
            one_row = replace(table, cells={row: cell})
            yield from tables.entries(TrialBench(runner, count), one_row, parts)


def gains(runner: CellRunner, table: Table[Cell], parts: Sequence[Part]) -> Iterator[Gain]:
    """Yield the gains of a table's steps; those of figure 4 after all its trials."""
    return tables.gains(TrialBench(runner) if table.trials else runner, table, parts)
