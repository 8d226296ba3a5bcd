"""``viper lab reproduce avis``: the tables of Hu et al. 2023, seeking beside what decides nothing.

How cells are answered stands in :mod:`viper_lab.papers.cell_runner`. Claims are judged on the
answers and on the ways to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viper.evaluate.evaluation import model_ids
from viper.evaluate.intervals import share
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.base import Components
from viper.strategies.seek.decisions import WRITTEN, decisions_of
from viper.strategies.seek.graph import EVERY, GROUPS
from viper_lab.papers.cell_runner import Cell, CellRunner, Scale, mean_score
from viper_lab.papers.job import PaperJob
from viper_lab.papers.parts import KnowledgePart, Part, set_part
from viper_lab.papers.result import Claim, Reproduction
from viper_lab.papers.tables import LEFT_OUT, Results, Table, cells_of, compared, gain

TITLE = "AVIS (Hu et al. 2023)"
ALL = "all"

# Whatever the profile says, every decision is made at temperature 0, as in the paper.
_SEEK = RunOptions(strategy="seek", trials=1, self_tune=False, temperature=0.0)


def _cell(name: str, graph: str = "avis", without: Sequence[str] = (), **settings: Any) -> Cell:
    return Cell(name, _SEEK.changed(graph=graph, without_actions=tuple(without), **settings))


SEEK = _cell("seek")
# Appendix B takes away all that people showed: the graph, and the decisions in the prompt.
UNGUIDED = _cell("seek, without the graph", EVERY, decisions="")
WITHOUT = {group: _cell(f"seek, without {group}", without=GROUPS[group]) for group in GROUPS}

QUESTION_ONLY = _cell("question only", "question-only")
MATCHER = _cell("matcher + language model", "matcher")
# The paper's three sequences.
FIXED = (
    _cell("fixed: seeing", "fixed-seeing"),
    _cell("fixed: seeing, object", "fixed-object"),
    _cell("fixed: seeing, object, search", "fixed-search"),
)

# One of ours: whatever the longest question needs, always. What going back is worth shows here.
EVERYTHING = _cell("fixed: every search, texts three times", "fixed-long")


def main_table(*, quick: bool) -> Table[Cell]:
    """Return tables 1, 2 and 5: search, baselines without decisions, and search without groups of
    tools.
    """
    others = [QUESTION_ONLY, MATCHER, *FIXED, EVERYTHING]
    less = [] if quick else list(WITHOUT.values())
    return compared("tables 1, 2 and 5", [*others, SEEK, *less], SEEK)


# With and without the transition graph.
GRAPH_TABLE = compared("table 3", [UNGUIDED, SEEK], SEEK)

# Not in the paper: questions that no text answers, more than the others hold.
UNANSWERED = compared("unanswerable questions", [EVERYTHING, SEEK], SEEK)


@dataclass(frozen=True)
class AvisStudy:
    """What is measured.

    Attributes:
        parts: of the data.
        quick: the rest was left out.
        settings: of every cell that does not set them itself.
    """

    parts: Sequence[Part]
    quick: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tables(self) -> list[Table[Cell]]:
        """Return the tables, the one that the main claims need first."""
        tables = [main_table(quick=self.quick), *([] if self.quick else [GRAPH_TABLE])]
        return [self.under_settings(table) for table in tables]

    def under_settings(self, table: Table[Cell]) -> Table[Cell]:
        """Return a table whose cells have the study's settings where they set nothing else."""
        cells = {
            name: replace(
                cell,
                options=cell.options.changed(changes={**self.settings, **cell.options.changes}),
            )
            for name, cell in table.cells.items()
        }
        return replace(table, cells=cells)

    @property
    def unanswerable(self) -> list[Part]:
        """Return the parts of further unanswerable questions."""
        known = [part for part in self.parts if isinstance(part, KnowledgePart)]
        return [] if self.quick else [part.unanswerable for part in known]

    def cells(self) -> list[tuple[Cell, Part]]:
        """Return every cell with each part, once."""
        unanswered = self.under_settings(UNANSWERED)
        return cells_of(self.tables, self.parts) + cells_of([unanswered], self.unanswerable)

    def reproduce(self, runner: CellRunner) -> Reproduction:
        """Answer everything that is not stored yet, and judge it."""
        results = Results(self.quick)
        for table in self.tables:
            results.measure(Columns(runner), table, columns(self.parts))
        results.measure(runner, self.under_settings(UNANSWERED), self.unanswerable)
        main = self.parts[0].equipped(runner.writers["main"], runner.scale.seeds[0])
        models, scale = model_ids(Reasoner(main, preload=False)), runner.scale
        claims = judged(runner, self)
        return results.judged(TITLE, claims, models, scale.seeds, samples=scale.samples)


# Columns by what a sample's groups must say; those that nothing falls into are left out.
FAMILIES: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    ALL: lambda groups: True,
    "look-alikes": lambda groups: groups.get("look_alike") == "yes",
    "unanswerable": lambda groups: groups.get("answerable") == "no",
    "0 or 1 hops": lambda groups: groups.get("hops") in ("0", "1"),
    "2 or 3 hops": lambda groups: groups.get("hops") in ("2", "3"),
    "unseen entities": lambda groups: groups.get("split") == "unseen_entity",
    "unseen questions": lambda groups: groups.get("split") == "unseen_question",
}


@dataclass(frozen=True)
class Column:
    """The questions of one family in a part of the data; ``name`` is what tables call them."""

    part: Part
    family: str
    name: str


def columns(parts: Sequence[Part]) -> list[Column]:
    """Return the columns of the tables, part by part."""
    return [
        Column(part, family, family if len(parts) == 1 else f"{part.name}, {family}")
        for part in parts
        for family in FAMILIES
    ]


@dataclass(frozen=True)
class Columns:
    """A runner whose results are told apart by column."""

    runner: CellRunner

    @property
    def scale(self) -> Scale:
        return self.runner.scale

    def results(self, cell: Cell, column: Column, seed: int) -> list[SampleResult]:
        fits = FAMILIES[column.family]
        return [r for r in self.runner.results(cell, column.part, seed) if fits(r.groups)]

    def note(self, cell: Cell, column: Column) -> str:
        return ""


RIGHT, ABOVE_FIXED, PICKED, ADMITTED = 0.70, 0.10, 0.80, 0.80


def judged(runner: CellRunner, study: AvisStudy) -> list[Claim]:
    """Return all claims, in an order that stays."""
    claims = [claim for part in study.parts for claim in _judged_part(runner, study, part)]
    if not any(isinstance(part, KnowledgePart) for part in study.parts):
        why = "judged on the embedded knowledge world only"
        claims.append(Claim("at least 70 % of questions about unseen entries", None, why))
    return claims


def _judged_part(runner: CellRunner, study: AvisStudy, part: Part) -> list[Claim]:
    def above(claim: str, before: str, least: float = 0.0, prefix: str = "") -> Claim:
        claim = f"{part.name}: {claim}"
        for table in study.tables:
            if before in table.cells:
                step_gain = gain(runner, table, (before, SEEK.name), [part])
                return Claim.of_gain(claim, step_gain, least, prefix)
        return Claim(claim, None, LEFT_OUT)

    scores = {cell.name: mean_score(runner.all_results(cell, part)) for cell in FIXED}
    best = max(scores, key=lambda name: scores[name])
    claims = [
        above("at least 10 points above the best of three fixed sequences",
              best, ABOVE_FIXED, f"{best}, {100 * scores[best]:.1f}: "),
        above("above the sequence that does everything (interval excludes 0)", EVERYTHING.name),
        above("the transition graph is worth something (interval excludes 0)", UNGUIDED.name),
    ]  # fmt: skip
    if not isinstance(part, KnowledgePart):
        return claims
    unseen = "seek: at least 70 % of questions about unseen entries"
    says_so = "unanswerable questions: says so at least 80 % of the time"
    unanswerable: Part = part if study.quick else part.unanswerable
    return [
        _right(runner, part, unseen, ALL, RIGHT),
        *claims,
        _picked(runner, part),
        _right(runner, unanswerable, says_so, "unanswerable", ADMITTED),
    ]


def _right(runner: CellRunner, part: Part, claim: str, family: str, least: float) -> Claim:
    """Return the claim that at least this share of a family's questions is answered right.

    Questions about one object are resampled together.
    """
    results = [r for r in runner.all_results(SEEK, part) if FAMILIES[family](r.groups)]
    clusters = [result.cluster for result in results]
    return Claim.of_share(claim, share([r.score == 1 for r in results], clusters), least)


def _picked(runner: CellRunner, part: KnowledgePart) -> Claim:
    """Return the claim that the search names the right entry, right answer or not."""
    right: list[bool] = []
    clusters: list[str] = []
    for seed in runner.scale.seeds:
        questions = part.questions(seed)
        with runner.store_of(SEEK, part, seed) as store:
            for result in store.rows():
                question = questions[result.sample_id]
                if question.look_alike:
                    trace = store.trace(result.sample_id, result.seed) or {}
                    right.append(picked(trace.get("path") or ()) == question.seen)
                    clusters.append(result.cluster)
    claim = "look-alikes: the right entry is picked at least 80 %"
    return Claim.of_share(claim, share(right, clusters), PICKED)


def picked(path: Sequence[Any]) -> str:
    """Return the name that a search gave to the object in the picture, or "" if it gave none.

    Args:
        path: of a trace of strategy ``seek``.
    """
    visual = next((step["visual"] for step in path if "visual" in step), None)
    answers = [
        str(step.get("extracted", ""))
        for step in path
        if step.get("verdict") == "answer" and step.get("query") == visual
    ]
    return answers[-1] if answers else ""


@dataclass(frozen=True)
class AvisJob(PaperJob):
    """``viper lab reproduce avis``.

    Attributes:
        decisions: see :class:`viper.strategies.seek.SeekSettings`; "" shows none.
    """

    decisions: str = WRITTEN

    def writers(self) -> dict[str, Components]:
        return {"main": self.options.opened().components()}

    def study(self, runner: CellRunner) -> AvisStudy:
        """Return what is measured; decisions are shown to planners whose prompts are in words.

        An exhausted search answers from memory, except on catalogues, where some questions have no
        answer and it is right to say so.

        Raises:
            UsageError: the decisions cannot be read.
        """
        o, components = self.options, runner.writers["main"]
        decisions_of(self.decisions)
        seeker = components.model("seeker")
        style = seeker[1] if seeker else components.settings.prompt_style
        settings = {} if style == "compact" else {"decisions": self.decisions}
        if o.is_world:
            part = KnowledgePart(o.out, o.samples, o.split or "test")
            return AvisStudy([part], o.quick, settings)
        set_of_data = set_part(o.set_name, o.root, o.split, "train")
        return AvisStudy([set_of_data], o.quick, {**settings, "exhausted": "memory"})
