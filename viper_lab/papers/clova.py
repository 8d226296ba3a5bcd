"""The tables of Gao et al. 2024 (CLOVA), course by course: what is learned, how, with what gain.

What is measured stands here; how a course is run stands in :mod:`viper_lab.papers.school`, how
single tools are measured in :mod:`viper_lab.papers.clova_tools`, how claims are judged in
:mod:`viper_lab.papers.clova_claims`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from viper.evaluate.intervals import over_seeds
from viper.evaluate.row import Row, mean_score
from viper.profiles.learning import Data
from viper.tuning.learner import LearnSettings
from viper.tuning.tool_updates import ToolSettings
from viper_lab.papers.result import Entry, Gain
from viper_lab.papers.school import Course, School, Subject
from viper_lab.papers.zero_shot import gain_of

BASELINE = Course("baseline", learns=False)
DEMONSTRATIONS = Course("+ demonstrations", tools=None)
FULL = Course("+ tool updates")
"""Table 3, each on top of the one before."""

TOOLS_ALONE = Course("tool updates alone", demonstrations=None)

NOISE = 0.3
"""Share of wrong pictures in the table on validation."""


@dataclass(frozen=True)
class Table:
    """Courses that are compared.

    Attributes:
        courses: name of the row to the course, in order.
        steps: pairs of row names whose gain is given.
    """

    name: str
    title: str
    courses: Mapping[str, Course]
    steps: Sequence[tuple[str, str]] = ()


def by_name(courses: Sequence[Course]) -> dict[str, Course]:
    """Courses under their own names."""
    return {course.name: course for course in courses}


def main_table() -> Table:
    """Table 3."""
    names = [BASELINE.name, DEMONSTRATIONS.name, FULL.name]
    return Table(
        "table 3",
        "demonstrations, then tools",
        by_name([BASELINE, DEMONSTRATIONS, TOOLS_ALONE, FULL]),
        [*zip(names, names[1:], strict=False), (names[0], names[-1])],
    )


def reflections(has_language: bool, has_steps: bool) -> Table:
    """Table 4: who reflects, and on what.

    Args:
        has_language: somebody writes critiques: a language model that follows instructions, or an
            adapter that was trained to.
        has_steps: it can be asked step by step.
    """
    tools = FULL.tools or ToolSettings()
    found = [
        FULL,
        replace(FULL, name="intervention, no probe", tools=replace(tools, probe=False)),
        replace(FULL, name="probe alone, no reflection", reflection="none"),
    ]
    if has_language:
        unprobed = replace(tools, probe=False)
        by = "language model"
        found += [
            replace(FULL, name=f"{by}, no probe", reflection="llm", tools=unprobed),
            replace(
                FULL,
                name=f"{by}, without results, no probe",
                reflection="llm-without-results",
                tools=unprobed,
            ),
        ]
        if has_steps:
            found += [
                replace(FULL, name=f"{by}, only global", reflection="llm-global", tools=unprobed),
                replace(FULL, name=f"{by}, only local", reflection="llm-local", tools=unprobed),
            ]
    steps = [(BASELINE.name, course.name) for course in found]
    return Table("table 4", "reflection", by_name([BASELINE, *found]), steps)


def planning() -> Table:
    """Table 4, its row without plans: strategy ``plan`` against ``program``."""
    options = replace(FULL.options, strategy="plan")
    planned = replace(FULL, name="with plans", options=options)
    planned_base = replace(BASELINE, name="baseline with plans", options=options)
    return Table(
        "plans",
        "a plan before the program",
        by_name([BASELINE, planned_base, FULL, planned]),
        [(planned_base.name, planned.name), (FULL.name, planned.name)],
    )


def cases() -> Table:
    """Table 5: which demonstrations are kept."""
    found = [
        replace(FULL, name="without incorrect cases", demonstrations=LearnSettings(True, False)),
        replace(FULL, name="without correct cases", demonstrations=LearnSettings(False, True)),
    ]
    return Table(
        "table 5",
        "demonstrations of right and wrong cases",
        by_name([FULL, *found]),
        [(one.name, FULL.name) for one in found],
    )


def validations() -> Table:
    """Table 6: validation of demonstrations and of soft prompts, also with wrong pictures."""
    tools = FULL.tools or ToolSettings()
    wrong = Data(wrong=NOISE)
    found = [
        FULL,
        replace(
            FULL,
            name="demonstrations not validated",
            demonstrations=LearnSettings(validate=False),
        ),
        replace(FULL, name="prompts not validated", tools=replace(tools, validate=False)),
        replace(FULL, name="30 % of pictures wrong", data=wrong),
        replace(
            FULL,
            name="30 % of pictures wrong, prompts not validated",
            data=wrong,
            tools=replace(tools, validate=False),
        ),
    ]
    names = [course.name for course in found]
    return Table(
        "table 6",
        "validation",
        by_name(found),
        [(names[1], names[0]), (names[2], names[0]), (names[4], names[3])],
    )


def second_writer() -> Table:
    """Another language model."""
    found = [
        replace(course, name=f"second model: {course.name}", writer="second")
        for course in (BASELINE, DEMONSTRATIONS, FULL)
    ]
    names = [course.name for course in found]
    return Table(
        "second model",
        "the same steps with another language model",
        by_name(found),
        [*zip(names, names[1:], strict=False), (names[0], names[-1])],
    )


@dataclass(frozen=True)
class Study:
    """What is measured.

    Attributes:
        subjects: parts of the data; those with a stream are learned from.
        tables: of courses.
        quick: the rest was left out.
        tools: how many questions a tool is asked about each concept; 0: tools are not measured.
    """

    subjects: Sequence[Subject]
    tables: Sequence[Table]
    quick: bool = False
    tools: int = 0
    facts: Mapping[str, object] = field(default_factory=dict)

    def courses(self) -> list[Course]:
        """Every course once."""
        found: dict[str, Course] = {}
        for table in self.tables:
            for course in table.courses.values():
                found.setdefault(course.name, course)
        return list(found.values())


def world_subjects(split: str = "val") -> list[Subject]:
    """The embedded world: what is about new concepts, and what is about old ones beside them."""
    return [
        Subject("new", "world-reserved", f"{split}:new", "train:new"),
        Subject("old", "world-reserved", f"{split}:old"),
    ]


def set_subjects(name: str, root: Path | None, split: str, taught: str) -> list[Subject]:
    """A data set as its only part."""
    return [Subject(name, name, split, taught, root)]


def entries(school: School, table: Table, subjects: Sequence[Subject]) -> Iterator[Entry]:
    """The rows of a table; learns and answers what is not stored yet."""
    for name, course in table.courses.items():
        for subject in subjects:
            by_seed = [school.rows(course, subjects, subject, seed) for seed in school.terms.seeds]
            scores = [mean_score(rows) for rows in by_seed]
            note = _note(school, course, subjects)
            n = sum(len(rows) for rows in by_seed)
            yield Entry(table.name, name, subject.name, over_seeds(scores), n, note)


def gains(school: School, table: Table, subjects: Sequence[Subject]) -> Iterator[Gain]:
    """The gains of a table's steps, part by part."""
    for before, after in table.steps:
        for subject in subjects:
            yield gain(school, table, (before, after), subject, subjects)


def gain(
    school: School,
    table: Table,
    step: tuple[str, str],
    subject: Subject,
    subjects: Sequence[Subject],
) -> Gain:
    """The gain of one step on one part, paired by sample over all seeds."""
    first, second = (
        [
            row
            for seed in school.terms.seeds
            for row in school.rows(table.courses[name], subjects, subject, seed)
        ]
        for name in step
    )
    return gain_of(first, second, table.name, " -> ".join(step), subject.name)


STREAM_PARTS = 3


def stream(school: School, subjects: Sequence[Subject]) -> Iterator[tuple[Entry, Entry]]:
    """Table 7: first answers to the stream, a third after the other, untaught and learning."""
    for subject in subjects:
        if not subject.taught:
            continue
        befores, afters = [], []
        for seed in school.terms.seeds:
            school.learned(FULL, subjects, seed)
            befores.append(_thirds(school.untaught_rows(BASELINE, subject, seed)))
            afters.append(_thirds(school.stream_rows(FULL, subject, seed)))
        for place in range(STREAM_PARTS):
            pairs = []
            for name, found in (("untaught", befores), ("while learning", afters)):
                scores = [mean_score(parts[place]) for parts in found]
                n = sum(len(parts[place]) for parts in found)
                row = f"{name}, third {place + 1}"
                pairs.append(Entry("table 7", row, subject.name, over_seeds(scores), n))
            yield pairs[0], pairs[1]


def _thirds(rows: Sequence[Row]) -> list[list[Row]]:
    size = -(-len(rows) // STREAM_PARTS)
    return [list(rows[start : start + size]) for start in range(0, size * STREAM_PARTS, size)]


def _note(school: School, course: Course, subjects: Sequence[Subject]) -> str:
    if not course.learns:
        return ""
    standings = [school.learned(course, subjects, seed) for seed in school.terms.seeds]
    updates = [one.updates for one in standings]
    kept = [one.demonstrations for one in standings]
    return f"{_range(updates)} updates of tools, {_range(kept)} demonstrations"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
