"""The ablation of Stanić et al. 2024: its tables 1 to 6 and figures 2 to 4, cell by cell.

What is measured stands here; how a cell is answered stands in :mod:`viper_lab.papers.lab`, how
claims are judged in :mod:`viper_lab.papers.zero_shot_claims`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viper.errors import DataError
from viper.evaluate.intervals import over_seeds, paired
from viper.evaluate.row import Row
from viper.reasoner import RunOptions
from viper_lab.papers.lab import Cell, Lab, Mining
from viper_lab.papers.parts import Part
from viper_lab.papers.result import Entry, Gain

TRIALS = 5

ACE = Mining("abstract", programs=4, agree=True)
"""16 examples; the paper draws one program for a sample and keeps any that was right."""

ACE_VIPERGPT = replace(ACE, api="vipergpt")

BASE = RunOptions(api="vipergpt", examples=0, trials=1, self_tune=False, temperature=0.0)
"""One program, no examples, no correction."""


def with_examples(options: RunOptions) -> RunOptions:
    """The same with the bank's first examples, as many as the profile shows."""
    return options.changed(examples=None, retrieval="fixed")


ABSTRACT = BASE.changed(api="abstract")

VIPERGPT_CELL = Cell("ViperGPT API", BASE)
ABSTRACT_CELL = Cell("+ abstract API", ABSTRACT)
ACE_CELL = Cell("+ ACE", with_examples(ABSTRACT), ACE)
DEBUG_CELL = Cell("+ self-debugging", ACE_CELL.options.changed(trials=TRIALS), ACE)
TUNE_CELL = Cell("+ self-tuning", DEBUG_CELL.options.changed(self_tune=True), ACE)

STEPS: tuple[Cell, ...] = (VIPERGPT_CELL, ABSTRACT_CELL, ACE_CELL, DEBUG_CELL, TUNE_CELL)
"""Table 2, each row on top of the one before."""

AT_RANDOM_CELL = Cell("16 programs kept at random", ACE_CELL.options, replace(ACE, scored=False))

VIPERGPT_ACE_CELL = Cell("ViperGPT API + ACE", with_examples(BASE), ACE_VIPERGPT)


@dataclass(frozen=True)
class Table:
    """Cells that are compared.

    Attributes:
        name: ``table 2``.
        title: what it shows.
        cells: name of the row to the cell, in order.
        families: the parts it is about; empty means all.
        steps: pairs of row names whose gain is given.
        trials: figure 4 instead gives each cell after 1, 2, … programs.
    """

    name: str
    title: str
    cells: Mapping[str, Cell]
    families: tuple[str, ...] = ()
    steps: Sequence[tuple[str, str]] = ()
    trials: bool = False


def by_name(cells: Sequence[Cell]) -> dict[str, Cell]:
    """Cells under their own names."""
    return {cell.name: cell for cell in cells}


def baselines(tasks: Mapping[str, Sequence[str]]) -> Table:
    """Table 1: end-to-end baselines, our zero-shot row and everything on.

    Args:
        tasks: each family's baseline strategies.
    """
    cells: dict[str, Cell] = {}
    for family, strategies in tasks.items():
        for strategy in strategies:
            cells[f"{strategy} ({family})"] = Cell(
                f"baseline {strategy} {family}", RunOptions(strategy=strategy)
            )
    cells["zero-shot"] = ABSTRACT_CELL
    cells["everything on"] = TUNE_CELL
    return Table("table 1", "against end-to-end baselines", cells)


def ablation() -> Table:
    """Table 2."""
    names = [cell.name for cell in STEPS]
    pairs = [*zip(names, names[1:], strict=False), (names[0], names[-1])]
    return Table("table 2", "each part on top of the others", by_name(STEPS), steps=pairs)


def mined_against_random() -> Table:
    """Not in the paper: what the scores of the programs are worth."""
    cells = by_name([ACE_CELL, AT_RANDOM_CELL])
    return Table(
        "kept",
        "16 examples kept by score, and 16 at random among those that ran",
        cells,
        steps=[(AT_RANDOM_CELL.name, ACE_CELL.name)],
    )


def ways_of_mining() -> Table:
    """Not in the paper, which draws one program for a sample and keeps any that was right."""
    cells = {
        "1 program each": replace(
            ACE_CELL, name="1 program each", mining=replace(ACE, programs=1, agree=False)
        ),
        "4 programs each": replace(
            ACE_CELL, name="4 programs each", mining=replace(ACE, agree=False)
        ),
        "4 programs each that agree": ACE_CELL,
    }
    names = list(cells)
    return Table(
        "mined",
        "programs drawn for a labelled sample, and which of them are kept",
        cells,
        steps=[(names[0], names[1]), (names[1], names[2])],
    )


TUNING_TIMES = 4
"""How many more samples show what self-tuning gains: only a few answers depend on it."""

UNTUNED_CELL = replace(DEBUG_CELL, name="self-debugging, fixed thresholds", times=TUNING_TIMES)
TUNED_CELL = replace(TUNE_CELL, name="self-debugging and self-tuning", times=TUNING_TIMES)


def self_tuning(families: Sequence[str]) -> Table:
    """The last step of table 2 again, on more samples.

    Args:
        families: those that ground expressions.
    """
    cells = by_name([UNTUNED_CELL, TUNED_CELL])
    return Table(
        "self-tuning",
        "dynamic against fixed thresholds, on more samples",
        cells,
        tuple(families),
        steps=[(UNTUNED_CELL.name, TUNED_CELL.name)],
    )


def api_by_examples() -> Table:
    """Figure 2."""
    cells = {
        "ViperGPT API": VIPERGPT_CELL,
        "ViperGPT API + ACE": VIPERGPT_ACE_CELL,
        "abstract API": ABSTRACT_CELL,
        "abstract API + ACE": ACE_CELL,
    }
    return Table(
        "figure 2",
        "API and examples",
        cells,
        steps=[
            ("ViperGPT API", "ViperGPT API + ACE"),
            ("abstract API", "abstract API + ACE"),
            ("ViperGPT API", "abstract API"),
            ("ViperGPT API + ACE", "abstract API + ACE"),
        ],
    )


def number_of_examples() -> Table:
    """Figure 3, and retrieval by similarity instead of the same examples for all."""
    cells = {"0 examples": ABSTRACT_CELL}
    for count in (1, 2, 4, 8, 16):
        options = ACE_CELL.options.changed(examples=count)
        cells[f"{count} examples"] = Cell(f"{count} examples", options, ACE)
    for count in (4, 8):
        options = ACE_CELL.options.changed(examples=count, retrieval="bm25")
        cells[f"{count} by BM25"] = Cell(f"{count} examples by BM25", options, ACE)
    return Table("figure 3", "number of examples", cells, steps=[("0 examples", "16 examples")])


def trials() -> Table:
    """Figure 4: score after so many programs."""
    debug, tune = DEBUG_CELL.options, TUNE_CELL.options
    cells = {
        "from scratch": DEBUG_CELL,
        "from scratch, dynamic threshold": TUNE_CELL,
        "feedback": Cell("feedback", debug.changed(feedback=True), ACE),
        "feedback, dynamic threshold": Cell(
            "feedback, dynamic threshold", tune.changed(feedback=True), ACE
        ),
        "ViperGPT API, from scratch": Cell(
            "ViperGPT API, from scratch", BASE.changed(trials=TRIALS)
        ),
        "ViperGPT API, from scratch, dynamic threshold": Cell(
            "ViperGPT API, from scratch, dynamic threshold",
            BASE.changed(trials=TRIALS, self_tune=True),
        ),
    }
    return Table(
        "figure 4",
        "score after 1 to 5 programs",
        cells,
        steps=[
            ("from scratch", "feedback"),
            ("from scratch, dynamic threshold", "feedback, dynamic threshold"),
            ("from scratch", "from scratch, dynamic threshold"),
        ],
        trials=True,
    )


def temperatures() -> Table:
    """Table 3."""
    cells = {}
    for title, cell in (("ViperGPT API", VIPERGPT_ACE_CELL), ("abstract API", ACE_CELL)):
        for value in (0.0, 0.4, 0.8, 1.0):
            name = f"{title}, temperature {value:g}"
            cells[name] = cell
            if value != cell.options.temperature:
                options = cell.options.changed(temperature=value)
                cells[name] = replace(cell, name=name, options=options)
    return Table("table 3", "temperature of the language model", cells)


def thresholds(name: str, values: Sequence[float], families: Sequence[str]) -> Table:
    """Table 4: a fixed threshold of the detector.

    Args:
        name: of the sensitivity.
        values: to try.
        families: whose programs look for objects.
    """
    cells = {}
    for title, cell in (("ViperGPT API", VIPERGPT_ACE_CELL), ("abstract API", ACE_CELL)):
        for value in values:
            row = f"{title}, {name} {value:g}"
            cells[row] = replace(cell, name=row, thresholds={name: value})
    return Table("table 4", "fixed threshold", cells, tuple(families))


def shots() -> Table:
    """Tables 5 and 6: which labelled samples are mined from."""
    cells = {"no examples": ABSTRACT_CELL}
    chosen = replace(ACE, shots=16, chosen=True)
    cells["16 chosen"] = replace(ACE_CELL, name="16 chosen", mining=chosen)
    for count in (16, 50):
        cells[f"{count} random"] = replace(
            ACE_CELL, name=f"{count} random", mining=replace(ACE, shots=count)
        )
    cells["100 random"] = ACE_CELL
    return Table(
        "tables 5 and 6",
        "labelled samples to mine from",
        cells,
        steps=[("16 chosen", "100 random"), ("no examples", "16 random")],
    )


def second_writer() -> Table:
    """Section 3: another language model, the same parts."""
    cells = {
        f"second model: {cell.name}": replace(
            cell, name=f"second model {cell.name}", writer="second"
        )
        for cell in STEPS
    }
    names = list(cells)
    return Table(
        "second model",
        "the same steps with another language model",
        cells,
        steps=[*zip(names, names[1:], strict=False), (names[0], names[-1])],
    )


def voting(votes: int = 5) -> Table:
    """An addition of ours: the most frequent of several answers."""
    options = TUNE_CELL.options.changed(votes=votes, temperature=0.4)
    cell = Cell(f"{votes} votes", options, ACE)
    cells = {"one answer": TUNE_CELL, f"{votes} votes": cell}
    return Table(
        "voting", "majority of several programs", cells, steps=[("one answer", f"{votes} votes")]
    )


def cells_asked(tables: Sequence[Table], parts: Sequence[Part]) -> Iterator[tuple[Cell, Part]]:
    """Each cell with each part it is asked about, once however many tables share it."""
    seen = set()
    for table in tables:
        for row, cell in table.cells.items():
            for part in parts_of(table, row, parts):
                if (cell.name, part.name) not in seen:
                    seen.add((cell.name, part.name))
                    yield cell, part


def entries(lab: Lab, table: Table, parts: Sequence[Part]) -> Iterator[Entry]:
    """The rows of a table, answering what is not stored yet."""
    for name, cell in table.cells.items():
        for part in parts_of(table, name, parts):
            by_seed = [lab.rows(cell, part, seed) for seed in lab.scale.seeds]
            note = lab.note(cell, part)
            if table.trials:
                for count in range(1, TRIALS + 1):
                    scores = [_mean(after(lab, cell, part, count, s)) for s in lab.scale.seeds]
                    row = f"{name}, {count} program{'s' if count > 1 else ''}"
                    n = sum(len(rows) for rows in by_seed)
                    yield Entry(table.name, row, part.name, over_seeds(scores), n, note)
                continue
            scores = [_mean([row.score for row in rows]) for rows in by_seed]
            n = sum(len(rows) for rows in by_seed)
            yield Entry(table.name, name, part.name, over_seeds(scores), n, note)


def gains(lab: Lab, table: Table, parts: Sequence[Part]) -> Iterator[Gain]:
    """The gains of a table's steps, family by family."""
    for before, after_ in table.steps:
        for part in parts_of(table, before, parts):
            yield gain(lab, table, (before, after_), [part])


def gain(lab: Lab, table: Table, step: tuple[str, str], parts: Sequence[Part]) -> Gain:
    """The gain of one step over some parts together, paired by sample."""
    first, second = (table.cells[name] for name in step)
    old = [row for part in parts for row in lab.all_rows(first, part)]
    new = [row for part in parts for row in lab.all_rows(second, part)]
    return gain_of(old, new, table.name, " -> ".join(step), ", ".join(p.name for p in parts))


def gain_of(
    before: Sequence[Row], after_: Sequence[Row], table: str, name: str, family: str
) -> Gain:
    """The gain between two lists of rows, paired by sample and seed.

    Samples of one picture are drawn together, and so is a sample that several seeds ask.

    Raises:
        DataError: they are not about the same samples.
    """
    old, new = ({(row.sample_id, row.seed): row for row in rows} for rows in (before, after_))
    alone = old.keys() ^ new.keys()
    if alone or not len(before) == len(after_) == len(old):
        raise DataError(
            f"{name}: {len(before)} and {len(after_)} answers cannot be paired, "
            f"{len(alone)} stand alone; remove the folder and begin anew"
        )
    found = paired(
        [row.score for row in before],
        [new[row.sample_id, row.seed].score for row in before],
        [row.cluster or row.sample_id for row in before],
    )
    return Gain(table, name, family, found.difference)


def after(lab: Lab, cell: Cell, part: Part, programs: int, seed: int) -> list[float]:
    """Each sample's score had only so many programs been written; re-runs by tuning are free."""
    with lab.store_of(cell, part, seed) as store:
        found = []
        for row in lab.rows(cell, part, seed):
            trace = store.trace(row.sample_id, row.seed) or {"trials": []}
            written = sum(trial["correction"] != "self_tune" for trial in trace["trials"])
            found.append(row.score if written <= programs else 0.0)
    return found


def parts_of(table: Table, row: str, parts: Sequence[Part]) -> list[Part]:
    """The parts that a row of a table is about."""
    if "(" in row:  # a baseline of one family
        return [part for part in parts if f"({part.name})" in row]
    return [part for part in parts if not table.families or part.name in table.families]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
