"""The ablation of Stanić et al. 2024: its tables 1 to 6 and figures 2 to 4, cell by cell.

What is measured stands here; how a cell is answered stands in
:mod:`viper_lab.papers.cell_runner`, how claims are judged in
:mod:`viper_lab.papers.zero_shot_claims`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viper.evaluate.sample_result import SampleResult
from viper.reasoner import RunOptions
from viper_lab.papers import tables
from viper_lab.papers.cell_runner import Cell, CellRunner, Mining, Scale
from viper_lab.papers.parts import Part, set_of
from viper_lab.papers.result import TableCell
from viper_lab.papers.tables import Table, by_name, chain, compared, stepped

TRIALS = 5

# 16 examples; the paper draws one program for a sample and keeps any that was right.
ACE = Mining("abstract", programs=4, agree=True)

# One program, no examples, no correction.
BASE = RunOptions(
    api="vipergpt", examples=0, careful=False, trials=1, self_tune=False, tune_on_evidence=False, temperature=0.0
)


def _varied(cell: Cell, name: str, mining: Mining | None = None, **options: object) -> Cell:
    """Return a cell that differs in some options, or in how its examples are mined."""
    return replace(
        cell, name=name, options=cell.options.changed(**options), mining=mining or cell.mining
    )


VIPERGPT_CELL = Cell("ViperGPT API", BASE)
ABSTRACT_CELL = _varied(VIPERGPT_CELL, "+ abstract API", api="abstract")
# With the bank's first examples, as many as the profile shows.
ACE_CELL = _varied(ABSTRACT_CELL, "+ ACE", ACE, examples=None, retrieval="fixed")

DEBUG_CELL = _varied(ACE_CELL, "+ self-debugging", trials=TRIALS)
TUNE_CELL = _varied(DEBUG_CELL, "+ self-tuning", self_tune=True)

# Table 2, each row on top of the one before.
STEPS: tuple[Cell, ...] = (VIPERGPT_CELL, ABSTRACT_CELL, ACE_CELL, DEBUG_CELL, TUNE_CELL)

# Not in the paper: what examples gain on the queries that only a convention decides.
VAGUE = stepped("vague queries", [ABSTRACT_CELL, ACE_CELL], [(ABSTRACT_CELL, ACE_CELL)])


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


AT_RANDOM_CELL = _varied(ACE_CELL, "16 programs kept at random", replace(ACE, scored=False))

VIPERGPT_ACE_CELL = _varied(
    ACE_CELL, "ViperGPT API + ACE", replace(ACE, api="vipergpt"), api="vipergpt"
)


def baselines(tasks: Mapping[str, Sequence[str]]) -> Table[Cell]:
    """Return table 1: end-to-end baselines, our zero-shot row and the full method.

    Args:
        tasks: each family's baseline strategies.
    """
    cells = {
        f"{name} ({family})": Cell(f"baseline {name} {family}", RunOptions(strategy=name))
        for family, strategies in tasks.items()
        for name in strategies
    }
    return Table("table 1", {**cells, "zero-shot": ABSTRACT_CELL, "everything on": TUNE_CELL})


# Each part on top of the others.
ABLATION = stepped("table 2", STEPS, chain(STEPS))

# Not in the paper: 16 examples kept by score, and 16 at random among those that ran.
KEPT = compared("kept", [ACE_CELL, AT_RANDOM_CELL], ACE_CELL)

_MINED = {
    "1 program each": _varied(ACE_CELL, "1 program each", replace(ACE, programs=1, agree=False)),
    "4 programs each": _varied(ACE_CELL, "4 programs each", replace(ACE, agree=False)),
    "4 programs each that agree": ACE_CELL,
}
# Not in the paper, which draws one program for a sample and keeps any that was right.
MINED = Table("mined", _MINED, steps=chain(list(_MINED))[:-1])

# How many more samples show what self-tuning gains: only a few answers depend on it.
TUNING_TIMES = 4

UNTUNED_CELL = replace(DEBUG_CELL, name="self-debugging, fixed thresholds", times=TUNING_TIMES)
TUNED_CELL = replace(TUNE_CELL, name="self-debugging and self-tuning", times=TUNING_TIMES)


def self_tuning(families: Sequence[str]) -> Table[Cell]:
    """Return the last step of table 2 again, on more samples.

    Args:
        families: those that ground expressions.
    """
    return compared("self-tuning", [UNTUNED_CELL, TUNED_CELL], TUNED_CELL, families)


def self_tuning_from(name: str, value: float, families: Sequence[str]) -> Table[Cell]:
    """Return self-tuning from a threshold that was not chosen to be the best.

    Args:
        name: of the threshold.
        value: where both rows start; without self-tuning it stays.
        families: those that ground expressions.
    """
    untuned, tuned = (
        replace(cell, name=f"{cell.name}, from {name} {value:g}", thresholds={name: value})
        for cell in (UNTUNED_CELL, TUNED_CELL)
    )
    return compared("self-tuning, start off", [untuned, tuned], tuned, families)


API_BY_EXAMPLES = Table(
    "figure 2",
    {
        "ViperGPT API": VIPERGPT_CELL,
        "ViperGPT API + ACE": VIPERGPT_ACE_CELL,
        "abstract API": ABSTRACT_CELL,
        "abstract API + ACE": ACE_CELL,
    },
    steps=[
        ("ViperGPT API", "ViperGPT API + ACE"),
        ("abstract API", "abstract API + ACE"),
        ("ViperGPT API", "abstract API"),
        ("ViperGPT API + ACE", "abstract API + ACE"),
    ],
)

# Also retrieval by similarity instead of the same examples for all.
NUMBER_OF_EXAMPLES = Table(
    "figure 3",
    {
        "0 examples": ABSTRACT_CELL,
        **by_name([_varied(ACE_CELL, f"{n} examples", examples=n) for n in (1, 2, 4, 8, 16)]),
        **{
            f"{n} by BM25": _varied(ACE_CELL, f"{n} examples by BM25", examples=n, retrieval="bm25")
            for n in (4, 8)
        },
    },
    steps=[("0 examples", "16 examples")],
)

_SCRATCH = "ViperGPT API, from scratch"
_TUNED_SCRATCH = f"{_SCRATCH}, dynamic threshold"
# Score after 1 to 5 programs.
TRIALS_TABLE = Table(
    "figure 4",
    {
        "from scratch": DEBUG_CELL,
        "from scratch, dynamic threshold": TUNE_CELL,
        **by_name(
            [
                _varied(DEBUG_CELL, "feedback", feedback=True),
                _varied(TUNE_CELL, "feedback, dynamic threshold", feedback=True),
                _varied(VIPERGPT_CELL, _SCRATCH, trials=TRIALS),
                _varied(VIPERGPT_CELL, _TUNED_SCRATCH, trials=TRIALS, self_tune=True),
            ]
        ),
    },
    steps=[
        ("from scratch", "feedback"),
        ("from scratch, dynamic threshold", "feedback, dynamic threshold"),
        ("from scratch", "from scratch, dynamic threshold"),
    ],
    trials=True,
)

_APIS = {"ViperGPT API": VIPERGPT_ACE_CELL, "abstract API": ACE_CELL}


def temperatures() -> Table[Cell]:
    """Return table 3: temperature of the language model."""
    cells = dict[str, Cell]()
    for title, cell in _APIS.items():
        cells[f"{title}, temperature 0"] = cell
        for value in (0.4, 0.8, 1.0):
            name = f"{title}, temperature {value:g}"
            cells[name] = _varied(cell, name, temperature=value)
    return Table("table 3", cells)


def thresholds(name: str, values: Sequence[float], families: Sequence[str]) -> Table[Cell]:
    """Return table 4: a fixed threshold of the detector.

    Args:
        name: of the sensitivity.
        values: to try.
        families: whose programs look for objects.
    """
    cells = [
        replace(cell, name=f"{title}, {name} {value:g}", thresholds={name: value})
        for title, cell in _APIS.items()
        for value in values
    ]
    return Table("table 4", by_name(cells), tuple(families))


# Which labelled samples are mined from.
SHOTS = Table(
    "tables 5 and 6",
    {
        "no examples": ABSTRACT_CELL,
        "16 chosen": _varied(ACE_CELL, "16 chosen", replace(ACE, shots=16, chosen=True)),
        "16 random": _varied(ACE_CELL, "16 random", replace(ACE, shots=16)),
        "50 random": _varied(ACE_CELL, "50 random", replace(ACE, shots=50)),
        "100 random": ACE_CELL,
    },
    steps=[("16 chosen", "100 random"), ("no examples", "16 random")],
)

_SECOND = {
    f"second model: {cell.name}": replace(cell, name=f"second model {cell.name}", writer="second")
    for cell in STEPS
}
# Section 3: the same steps with another language model.
SECOND = Table("second model", _SECOND, steps=chain(list(_SECOND)))

# An addition of ours: the most frequent of several answers.
VOTING = Table(
    "voting",
    {"one answer": TUNE_CELL, "5 votes": _varied(TUNE_CELL, "5 votes", votes=5, temperature=0.4)},
    steps=[("one answer", "5 votes")],
)


def entries(runner: CellRunner, table: Table[Cell], parts: Sequence[Part]) -> Iterator[TableCell]:
    """Yield the rows of a table, answering what is not stored yet."""
    if not table.trials:
        yield from tables.entries(runner, table, parts)
        return
    for name, cell in table.cells.items():
        for part in table.parts_of(name, parts):
            for count in range(1, TRIALS + 1):
                scores = [after(runner, cell, part, count, seed) for seed in runner.scale.seeds]
                row = f"{name}, {count} program{'s' if count > 1 else ''}"
                note = runner.note(cell, part)
                yield TableCell.of_scores(table.name, row, part.name, scores, note)


def after(runner: CellRunner, cell: Cell, part: Part, programs: int, seed: int) -> list[float]:
    """Return each sample's score with at most ``programs`` programs. Re-runs by self-tuning are
    free.
    """
    with runner.store_of(cell, part, seed) as store:
        scores = []
        for result in runner.results(cell, part, seed):
            trace = store.trace(result.sample_id, result.seed) or {"trials": []}
            programs_written = sum(trial["correction"] != "self_tune" for trial in trace["trials"])
            scores.append(result.score if programs_written <= programs else 0.0)
    return scores
