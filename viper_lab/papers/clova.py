"""``viper lab reproduce clova``: the tables of Gao et al. 2024, method by method.

How a method is run stands in :mod:`viper_lab.papers.method_runner`, how tools are measured in
:mod:`viper_lab.papers.clova_tools`, how claims are judged in :mod:`viper_lab.papers.clova_claims`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from viper.commands.options import TrainingData
from viper.commands.terminal import hint_to_go_on, status
from viper.data.registry import data_set, training_split
from viper.data.sample import DrawnSet
from viper.errors import UsageError
from viper.evaluate.campaign import bound_arenas
from viper.evaluate.sample_result import SampleResult
from viper.schema import to_json
from viper.strategies.base import Components
from viper.tuning.learner import LearnSettings
from viper.tuning.tool_updates import UpdateSettings
from viper.tuning.wiring import Data, Reflection
from viper_lab.datasets.world import EDITIONS
from viper_lab.papers.cell_runner import Mining
from viper_lab.papers.clova_claims import judged
from viper_lab.papers.clova_concepts import Concepts
from viper_lab.papers.clova_tools import ToolSetup, measured_tools, tool_rows
from viper_lab.papers.fine_tuning import figure
from viper_lab.papers.job import print_report, second_writer, teller
from viper_lab.papers.method_runner import Method, MethodRunner, Subject, Terms, plans
from viper_lab.papers.options import Options
from viper_lab.papers.result import Claim, Reproduction, TableCell
from viper_lab.papers.tables import Results, Table, chain, compared, gain, stepped

TITLE = "CLOVA (Gao et al. 2024)"

BASELINE = Method("baseline", learns=False)
DEMONSTRATIONS = Method("+ demonstrations", tools=None)
# Table 3, each on top of the one before.
FULL = Method("+ tool updates")

TOOLS_ALONE = Method("tool updates alone", demonstrations=None)


_STEPS = [BASELINE, DEMONSTRATIONS, FULL]
MAIN = stepped("table 3", [BASELINE, DEMONSTRATIONS, TOOLS_ALONE, FULL], chain(_STEPS))

_TOOLS = UpdateSettings()
_UNPROBED = replace(_TOOLS, probe=False)


def reflections(has_language: bool) -> Table[Method]:
    """Return table 4: the kinds of reflection and what each one reads.

    Args:
        has_language: somebody writes critiques, step by step if need be: a language model that
            follows instructions.
    """
    methods = [
        FULL,
        replace(FULL, name="intervention, no probe", reflection="intervention", tools=_UNPROBED),
        replace(FULL, name="probe alone, no reflection", reflection="none"),
    ]
    if has_language:
        named: dict[str, Reflection] = {
            "no probe": "llm",
            "without results, no probe": "llm-without-results",
            "only global": "llm-global",
            "only local": "llm-local",
        }
        methods += [
            replace(FULL, name=f"language model, {name}", reflection=how, tools=_UNPROBED)
            for name, how in named.items()
        ]
    return stepped("table 4", [BASELINE, *methods], [(BASELINE, method) for method in methods])


_PROGRAMS = FULL.options.changed(strategy="program")
_UNPLANNED = replace(FULL, name="without plans", options=_PROGRAMS)
_UNPLANNED_BASE = replace(BASELINE, name="baseline without plans", options=_PROGRAMS)

# Table 4, its row without plans: strategy ``program`` against ``plan``.
PLANNING = stepped(
    "plans",
    [BASELINE, _UNPLANNED_BASE, FULL, _UNPLANNED],
    [(_UNPLANNED_BASE, _UNPLANNED), (_UNPLANNED, FULL)],
)

_NO_WRONG = replace(
    FULL,
    name="without incorrect cases",
    demonstrations=LearnSettings(True, False),
    options=FULL.options.changed(incorrect_demonstrations=0),
)
_NO_RIGHT = replace(
    FULL,
    name="without correct cases",
    demonstrations=LearnSettings(False, True),
    options=FULL.options.changed(correct_demonstrations=0),
)

# Which demonstrations are kept and shown, the first ones included. Only prompts of plans and chat
# prompts show incorrect ones: :func:`tables_for` leaves these rows out for other writers.
CASES = compared("table 5", [FULL, _NO_WRONG, _NO_RIGHT], FULL)
CASES_LEFT_OUT = Claim(
    "table 5, and the row without plans",
    None,
    "left out: the writer knows programs only, and its prompts show no incorrect demonstrations, "
    "so that these rows could not differ",
)

_UNCHECKED = replace(
    FULL, name="demonstrations not validated", demonstrations=LearnSettings(validate=False)
)
_UNTRIED = replace(FULL, name="prompts not validated", tools=replace(_TOOLS, validate=False))

# Validation of demonstrations and of soft prompts.
#
# What wrong pictures do is measured by tool alone: in the stream one training of sixteen takes
# pictures of a search.
VALIDATIONS = stepped(
    "table 6", [FULL, _UNCHECKED, _UNTRIED], [(_UNCHECKED, FULL), (_UNTRIED, FULL)]
)

_SECOND = [
    replace(method, name=f"second model: {method.name}", writer="second") for method in _STEPS
]
SECOND = stepped("second model", _SECOND, chain(_SECOND))


# Ours: ACE keeps what several programs of a sample, or of other samples, bear out.
AGREED = replace(
    DEMONSTRATIONS,
    name="+ demonstrations that agree",
    mined=Mining("abstract", keep=40, programs=4, agree=True),
)


def vague_table(set_names: Sequence[str]) -> Table[Method]:
    """Return what demonstrations gain where only they show what a query means.

    Reserved concepts are asked for explicitly, so demonstrations change nothing about them. All
    rows write programs alone, as mining does, and begin without demonstrations.
    """
    methods, steps = [], []
    for set_name in set_names:
        before, greedy, agreed = (
            replace(method, name=f"{method.name} ({set_name})", course=set_name, options=_PROGRAMS)
            for method in (BASELINE, DEMONSTRATIONS, AGREED)
        )
        methods += [before, greedy, agreed]
        steps += [(before, greedy), (before, agreed), (greedy, agreed)]
    return stepped("demonstrations on vague queries", methods, steps)


def tables_for(components: Components, *, has_second: bool, quick: bool) -> list[Table[Method]]:
    """Return the tables that these parts can be measured by."""
    if quick:
        return [MAIN]
    tables = [MAIN, reflections(components.settings.prompt_style != "compact"), VALIDATIONS]
    if plans(components):
        tables += [CASES, PLANNING]
    return [*tables, SECOND] if has_second else tables


STREAM_PARTS = 3


def stream(runner: MethodRunner) -> Iterator[TableCell]:
    """Yield table 7: the first answers to the stream by thirds, before and while learning."""
    for subject in runner.subjects:
        if not subject.stream_split or subject.course:
            continue
        seeds = runner.scale.seeds
        for seed in seeds:
            runner.progress(FULL, seed)
        answers = {
            "untaught": [runner.baseline_results(BASELINE, subject, seed) for seed in seeds],
            "while learning": [runner.stream_results(FULL, subject, seed) for seed in seeds],
        }
        for place in range(STREAM_PARTS):
            for name, by_seed in answers.items():
                scores = [[r.score for r in _third(results, place)] for results in by_seed]
                row_name = f"{name}, third {place + 1}"
                yield TableCell.of_scores("table 7", row_name, subject.name, scores)


def _third(results: Sequence[SampleResult], place: int) -> Sequence[SampleResult]:
    size = -(-len(results) // STREAM_PARTS)
    return results[place * size : (place + 1) * size]


@dataclass(frozen=True)
class ClovaOptions:
    """Options of ``viper lab reproduce clova`` alone; see its help."""

    stream: int
    start: int
    questions: int
    stream_split: str | None
    concepts: str | None
    second: str | None
    training: TrainingData


def reproduce_clova(
    runner: MethodRunner,
    tables: Sequence[Table[Method]],
    count: int,
    split: str = "test",
    *,
    quick: bool,
    concepts: Concepts | None = None,
) -> Reproduction:
    """Compute every learning and answering step that is not stored yet, then judge the claims.

    Args:
        count: questions to each tool about each reserved concept; 0: tools are not measured.
        split: of the scenes that tools are asked about.
        concepts: of an annotation file, on which the detector is measured.
    """
    results = Results(quick)
    subjects = [subject for subject in runner.subjects if not subject.course]
    vague = [subject for subject in runner.subjects if subject.course]
    writer, folder = runner.writers["main"], runner.folder / "tools"
    toolbox, seeds, tools = writer.toolbox, runner.scale.seeds, None
    if count:
        asked = ToolSetup("", 0, count, runner.scale.data.positives, split=split)
        tools = measured_tools(toolbox, asked, folder, seeds, runner.say, quick=quick)
        results.rows += tools.entries
        results.gains += tools.gains
    if concepts is not None:
        taught = [concepts.detector(runner, seed) for seed in seeds]
        kept, trained = (sum(getattr(each, n) for each in taught) for n in ("kept_good", "good"))
        title = f"the detector, on pictures held back; {kept} of {trained} prompts kept"
        rows, gains = tool_rows([taught], title)
        results.rows += rows
        results.gains += gains
    for table in tables:
        results.measure(runner, table, subjects)
    if not quick:
        results.measure(runner, vague_table([each.name for each in vague]), vague)
        results.rows += stream(runner)
        if count:
            results.rows += figure(toolbox, asked, seeds[:1], folder, runner.say)
    ended = [
        (subject, step.difference)
        for subject in subjects
        if (step := gain(runner, MAIN, (BASELINE.name, FULL.name), [subject])) is not None
    ]
    return results.judged(
        TITLE,
        [*judged(ended, tools, quick=quick), *([] if quick or plans(writer) else [CASES_LEFT_OUT])],
        runner.model_ids(),
        seeds,
        stream=runner.scale.stream,
        samples=runner.scale.samples,
        **{"questions about each concept": count, "first demonstrations": runner.scale.start},
    )


def run_clova(options: Options, own: ClovaOptions) -> int:
    """Run ``viper lab reproduce clova``; the exit code.

    Raises:
        UsageError: what is answered is learned from, or nothing is given to learn from.
    """
    bound_arenas()
    subjects, data, concepts = _parts(options, own)
    with status("opening the profile"):
        main = options.opened().components()
        others = {} if options.quick else second_writer(options, own.second, main)
    tables = tables_for(main, has_second=bool(others), quick=options.quick)
    terms = Terms(own.stream, options.samples, tuple(range(options.seeds)), own.start, data)
    document, writers = to_json(options.opened().document), {"main": main, **others}
    runner = MethodRunner(writers, document, options.out, terms, subjects, teller())
    began = time.monotonic()
    with closing(runner), hint_to_go_on():
        count, split = own.questions if options.is_world else 0, options.split or "test"
        reproduction = reproduce_clova(
            runner, tables, count, split, quick=options.quick, concepts=concepts
        )
    return print_report(reproduction, options.out, began, as_json=options.as_json)


def _parts(options: Options, own: ClovaOptions) -> tuple[list[Subject], Data, Concepts | None]:
    """Return the parts of the data, the training pictures, and the concepts of FILE.json."""
    name, data = options.set_name, own.training.data()
    has_boxes = name.endswith(".json")
    names = [each.strip() for each in (own.concepts or "").split(",") if each.strip()]
    if bool(names) != has_boxes:
        raise UsageError("--concepts goes with --data FILE.json, whose boxes show them; give both")
    if options.is_world:
        return world_subjects(options.split or "test", quick=options.quick), data, None
    # the world's other sets draw their samples, too
    if not data.is_own and (has_boxes or not isinstance(data_set(name), DrawnSet)):
        raise UsageError(
            f"{name} does not show the embedded world; name training pictures with "
            "--annotated lvis|FILE.json|none and --pictures DIR|FILE.toml|none"
        )
    if not has_boxes:
        return [own_subject(options, own)], data, None
    concepts = Concepts.of(Path(name), options.root, names)
    data = replace(data, leave_out=concepts.held_back)
    return [concepts.subject(options.out / "questions")], data, concepts


def world_subjects(split: str, *, quick: bool) -> list[Subject]:
    """Return reserved concepts and known objects, and sets of vague queries unless it is quick."""
    subjects = [
        Subject("new", "world-reserved", f"{split}:new", "train:new"),
        Subject("old", "world-reserved", f"{split}:old"),
    ]
    names = [] if quick else [f"world-{edition}" for edition in EDITIONS]
    return subjects + [Subject(name, name, split, "train", course=name) for name in names]


def own_subject(options: Options, own: ClovaOptions) -> Subject:
    """Return a data set with a split to answer and another to learn from.

    Raises:
        UsageError: they are the same, or there is no split to learn from.
    """
    name = options.set_name
    split = options.split or data_set(name).splits[0]
    stream_split = own.stream_split or training_split(name, alike=True, option="--stream-split")
    if split == stream_split:
        raise UsageError(
            f"{name} would be judged on {split}, which it learns from; choose another --split or "
            "--stream-split"
        )
    return Subject(name, name, split, stream_split, options.root)
