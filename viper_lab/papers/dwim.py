"""``viper lab reproduce dwim``: table 10 of DWIM (2025), sections 9, 11 and 14, and the claims.

What they are made of is :class:`viper_lab.papers.dwim_study.DwimStudy`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Generic

import numpy as np

from viper.commands.terminal import hint_to_go_on
from viper.data.registry import data_set, named_like
from viper.errors import UsageError
from viper.evaluate.awareness import (
    CAUSES,
    Awareness,
    SampleFigures,
    ToolFigures,
    ToolsOf,
    awareness,
    causes_of,
    perfect_tools,
)
from viper.evaluate.campaign import bound_arenas
from viper.evaluate.evaluation import model_ids
from viper.evaluate.intervals import (
    RESAMPLES,
    Estimate,
    over_seeds,
    paired,
    proportion,
    share,
    sums_of,
)
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import Reasoner, RunOptions
from viper.sandbox import Sandbox
from viper.strategies.explore.workflow import MODES, Workflow
from viper.tuning.agent.flags import flag_report
from viper.tuning.agent.training import TuneSettings
from viper.tuning.agent.tuned_model import agent_role, tuned_of
from viper_lab.papers.dwim_study import (
    AGENTS,
    FROZEN,
    MASKED,
    QUICK_AGENTS,
    TEMPERATURE,
    UNTUNED,
    AgentVariant,
    DwimScale,
    DwimStudy,
    SampleSplits,
)
from viper_lab.papers.job import print_report, teller
from viper_lab.papers.options import Options
from viper_lab.papers.result import Claim, Reproduction, TableCell, in_percent, in_points
from viper_lab.papers.tables import C, Results, Table, compared, gain

TITLE = "DWIM (2025)"

UNTUNED_LEAST, TUNED_GAIN, FEWER_WRONG_TOOLS = 0.40, 0.10, 1 / 3
WRONG_TOOL = "wrong tool"

OF_A_QUESTION = "sections 11 and 14: of a question"
BY_CAUSE = "section 11: answers that are wrong, by cause"
OF_WRONG = "section 11: causes of wrong answers"
CALLS_OF_TOOLS = "section 11: calls of tools by type of question"
RIGHT_OF_TOOLS = "section 11: answers from tools that were right"
ABANDONED = "section 11: answers from tools that were abandoned"


@dataclass(frozen=True)
class Whole:
    """The only part of the data."""

    name: str = "all"


WHOLE = (Whole(),)


@dataclass(frozen=True)
class WorkflowBench(Generic[C]):
    """A bench whose cells are collection modes of workflows, or agents.

    Attributes:
        made: workflows of a cell under a seed.
        right: outcomes that count.
        about: what a reader must know about a cell.
    """

    scale: DwimScale
    made: Callable[[C, int], Sequence[Workflow]]
    right: tuple[str, ...]
    about: Callable[[C], str] = lambda cell: ""

    def results(self, cell: C, part: Whole, seed: int) -> list[SampleResult]:
        return [
            SampleResult(str(place), seed, float(w.outcome in self.right), cluster=w.unit)
            for place, w in enumerate(self.made(cell, seed))
        ]

    def note(self, cell: C, part: Whole) -> str:
        """Return the share of copied answers, where they do not count."""
        if "copied" in self.right:
            return self.about(cell)
        by_seed = [[w.outcome for w in self.made(cell, seed)] for seed in self.scale.seeds]
        copied = over_seeds([each.count("copied") / max(1, len(each)) for each in by_seed]).mean
        return f"{100 * copied:.1f} % more copied the answer" if copied else ""


def of_use(study: DwimStudy) -> WorkflowBench[str]:
    """Return how many training samples each mode makes use of."""
    return WorkflowBench(study.scale, lambda mode, seed: study.made(seed, mode), ("right",))


def answers(study: DwimStudy) -> WorkflowBench[AgentVariant]:
    """Return how many samples each agent answers right."""

    def examples(agent: AgentVariant) -> str:
        if not agent.examples:
            return ""
        counts = {len(study.examples(seed, agent.examples)) for seed in study.scale.seeds}
        return f"{' or '.join(map(str, sorted(counts)))} examples in its prompts"

    return WorkflowBench(
        study.scale, lambda agent, seed: study.answers(agent, seed), ("right", "copied"), examples
    )


def utilisation(modes: Sequence[str] = MODES) -> Table[str]:
    """Return the table of data utilisation, the discrepancy-aware mode beside the others."""
    steps = [(mode, "discrepancy") for mode in modes if mode != "discrepancy"]
    return Table("data utilisation", {mode: mode for mode in modes}, steps=steps)


def right_answers(agents: Sequence[AgentVariant] = AGENTS) -> Table[AgentVariant]:
    """Return table 10, each agent beside the one that was tuned by instruct-masking."""
    return compared("table 10", agents, MASKED)


def aware(
    study: DwimStudy, agent: AgentVariant, tools_of: ToolsOf | None, sandbox: Sandbox
) -> list[Awareness]:
    """Return section 11's figures of an agent: first of all seeds together, then of each seed."""
    by_seed = [study.answers(agent, seed) for seed in study.scale.seeds]
    causes = [causes_of(each, tools_of, sandbox) for each in by_seed]
    every = awareness(list(chain(*by_seed)), list(chain(*causes)))
    return [every, *map(awareness, by_seed, causes)]


def awareness_rows(by_agent: Mapping[str, Sequence[Awareness]]) -> Iterator[TableCell]:
    """Yield the rows of sections 11 and 14: the cost of a question and the causes of wrong answers.

    Args:
        found: of each agent what :func:`aware` gives.
    """
    for name, (every, *by_seed) in by_agent.items():
        for figure in ("calls", "turns", "tokens", "seconds"):
            family = "calls of tools" if figure == "calls" else figure
            values = over_seeds([getattr(run, figure).value for run in by_seed])
            yield TableCell(OF_A_QUESTION, name, family, values, every.samples, unit="a question")
        for table, share_by in ((BY_CAUSE, Awareness.share_of), (OF_WRONG, share_of_wrong)):
            for cause in _causes_reported(every):
                shares = over_seeds([share_by(run, cause).value for run in by_seed])
                yield TableCell(table, name, cause, shares, share_by(every, cause).n)


def tool_rows(before: Sequence[Awareness], after: Sequence[Awareness]) -> Iterator[TableCell]:
    """Yield section 11 by tool and type of question, for the original agent and the tuned one."""
    tools = [
        (family, tool, every.samples, by_seed)
        for family, (every, *by_seed) in (("not tuned", before), ("tuned", after))
        for tool in every.tools
    ]
    for family, tool, samples, by_seed in tools:
        calls = over_seeds([of_tool(each, tool).calls / max(1, each.samples) for each in by_seed])
        yield TableCell(CALLS_OF_TOOLS, _named(tool), family, calls, samples, unit="a question")
    shares_of: Mapping[str, Callable[[ToolFigures], float]] = {
        RIGHT_OF_TOOLS: lambda figures: figures.right.value,
        ABANDONED: lambda figures: figures.abandoned / figures.answers,
    }
    for table, share_by in shares_of.items():
        for family, tool, _, by_seed in tools:
            figures = [of_tool(each, tool) for each in by_seed]
            shares = [share_by(each) for each in figures if each.answers]
            if shares:
                yield TableCell(table, _named(tool), family, over_seeds(shares), tool.answers)


def share_of_wrong(aware: Awareness, cause: str) -> Estimate:
    """Return the share of the wrong samples that were wrong for that cause."""
    wrong = [sample for sample in aware.each if sample.cause]
    return share([sample.cause == cause for sample in wrong], [sample.unit for sample in wrong])


def of_tool(aware: Awareness, like: ToolFigures) -> ToolFigures:
    """Return the figures of the same tool and type of question, or zeros if there are none."""
    for figures in aware.tools:
        if (figures.tool, figures.kind) == (like.tool, like.kind):
            return figures
    return ToolFigures(like.tool, like.kind, 0, 0, proportion(0, 0), 0)


def _causes_reported(figures: Awareness) -> Sequence[str]:
    """Return the causes that can be told for an agent's wrong answers."""
    if "not told" not in figures.causes:
        return CAUSES[:-1]
    return [cause for cause in CAUSES if cause not in ("wrong tool", "wrong logic")]


def _named(tool: ToolFigures) -> str:
    return f"{tool.tool}: {tool.kind}" if tool.kind else tool.tool


def judged(study: DwimStudy, aware: Mapping[str, Sequence[Awareness]]) -> list[Claim]:
    """Return all claims in a fixed order.

    Args:
        aware: of each agent what :func:`aware` gives.
    """
    untuned, tuned = aware[UNTUNED.name][0], aware[MASKED.name][0]
    used = gain(of_use(study), utilisation(), ("standard", "discrepancy"), WHOLE)
    better = gain(answers(study), right_answers(), (UNTUNED.name, MASKED.name), WHOLE)
    above_frozen = gain(answers(study), right_answers(), (FROZEN.name, MASKED.name), WHOLE)
    utilised = "data utilisation: discrepancy-aware above standard (interval excludes 0)"
    return [
        Claim.of_gain(utilised, used),
        Claim.of_share("not tuned: at least 40 % right", untuned.right, UNTUNED_LEAST),
        Claim.of_gain("instruct-masking: at least 10 points above not tuned", better, TUNED_GAIN),
        Claim.of_gain("instruct-masking: above not tuned with examples (excludes 0)", above_frozen),
        _calls_fall(untuned, tuned),
        *_wrong_tools_fall(untuned, tuned),
    ]


def _calls_fall(untuned: Awareness, tuned: Awareness) -> Claim:
    claim = "a question takes fewer calls of tools (interval excludes 0)"
    calls = _change(untuned, tuned, lambda sample: sample.calls)
    reason = (
        f"{untuned.calls.value:.2f} -> {tuned.calls.value:.2f}, "
        f"{calls.value:+.2f} [{calls.low:+.2f}, {calls.high:+.2f}], n = {calls.n:,}"
    )
    return Claim(claim, calls.high < 0, reason)


def _wrong_tools_fall(untuned: Awareness, tuned: Awareness) -> list[Claim]:
    of_all = "of all answers, those that are wrong for a wrong tool fall by a third"
    of_wrong = "of the wrong answers, those for a wrong tool fall by a third"
    shares = [agent.share_of(WRONG_TOOL) for agent in (untuned, tuned)]
    wrong_shares = [share_of_wrong(agent, WRONG_TOOL) for agent in (untuned, tuned)]
    fall = _change(untuned, tuned, lambda sample: sample.cause == WRONG_TOOL)
    change = f"{' -> '.join(map(in_percent, shares))}, {in_points(fall)}, n = {fall.n:,}"
    of_each = " -> ".join(f"{in_percent(share)} of {share.n:,}" for share in wrong_shares)
    return [
        Claim(of_all, _has_fallen(untuned, tuned, lambda sample: 1), change),
        Claim(of_wrong, _has_fallen(untuned, tuned, lambda sample: bool(sample.cause)), of_each),
    ]


def _change(untuned: Awareness, tuned: Awareness, figure: Callable[[Any], float]) -> Estimate:
    """Return how a figure of each question differs, paired."""
    before, after = ([float(figure(sample)) for sample in each.each] for each in (untuned, tuned))
    return paired(before, after, [sample.unit for sample in untuned.each]).difference


def _has_fallen(
    untuned: Awareness, tuned: Awareness, counted: Callable[[SampleFigures], float]
) -> bool | None:
    """Return whether the share of answers that are wrong for a wrong tool fell by a third.

    It did if the 95 % interval of the share after, less two thirds of the share before, lies below
    0. Questions of one unit are resampled together, with both answers.

    Args:
        counted: 1 for answers that the share is of, else 0.

    Returns:
        None if no answer was wrong for a wrong tool before.
    """
    before, after = (
        sums_of(
            [float(sample.cause == WRONG_TOOL) for sample in each.each],
            [float(counted(sample)) for sample in each.each],
            [sample.unit for sample in untuned.each],
        )
        for each in (untuned, tuned)
    )
    if not before.numerators.any():
        return None
    count = len(before.numerators)
    draws = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    old, new = (
        each.numerators[draws].sum(axis=1) / np.maximum(1, each.denominators[draws].sum(axis=1))
        for each in (before, after)
    )
    return bool(np.percentile(new - (1 - FEWER_WRONG_TOOLS) * old, 97.5) < 0)


def reproduce_dwim(study: DwimStudy, *, quick: bool) -> Reproduction:
    """Make, tune and answer everything that is not stored yet, and judge it."""
    results = Results(quick)
    study.begin()
    agents = QUICK_AGENTS if quick else AGENTS
    modes = ("standard", "discrepancy") if quick else MODES
    results.measure(of_use(study), utilisation(modes), WHOLE)
    results.measure(answers(study), right_answers(agents), WHOLE)
    parts = study.components
    with Sandbox(prelude=parts.library.prelude(), mode=parts.sandbox.mode) as sandbox:
        samples = (sample for seed in study.scale.seeds for sample in study.answered(seed))
        tools = perfect_tools(samples)
        by_agent = {agent.name: aware(study, agent, tools, sandbox) for agent in agents}
    results.rows += awareness_rows(by_agent)
    results.rows += tool_rows(by_agent[UNTUNED.name], by_agent[MASKED.name])
    flags = flag_report([w for seed in study.scale.seeds for w in study.made(seed, "discrepancy")])
    return results.judged(
        TITLE,
        judged(study, by_agent),
        model_ids(Reasoner(parts, preload=False)),
        study.scale.seeds,
        workflows=study.scale.workflows,
        samples=study.scale.samples,
        set=study.splits.set_name,
        splits=[study.splits.train, study.splits.test],
        temperature=study.explore.temperature,
        checks_by=study.checks_by,
        tuning=asdict(study.scale.settings),
        actions=dict(flags.actions),
        ineffective=dict(flags.reasons),
    )


@dataclass(frozen=True)
class DwimOptions:
    """Options of ``viper lab reproduce dwim`` beside those of all reproductions and of tuning.

    Attributes:
        workflows: training samples of each seed and mode.
        checks_by: None for the language model, or for rules where the agent is a small model.
        temperature: None for that of the profile, or for :data:`TEMPERATURE` where that is 0.
    """

    workflows: int
    train_split: str | None = None
    checks_by: str | None = None
    temperature: float | None = None


def run_dwim(options: Options, own: DwimOptions, settings: TuneSettings) -> int:
    """Run ``viper lab reproduce dwim``; the exit code.

    Raises:
        UsageError: there are no splits, or what is answered is learned from.
    """
    bound_arenas()
    name, splits = options.set_name, data_set(options.set_name).splits
    train = own.train_split or (
        "train:question" if options.is_world else named_like(splits, "train")
    )
    test = options.split or ("test:question" if options.is_world else named_like(splits, "val"))
    if train is None or test is None:
        raise UsageError(
            f"{name} has no split train or val; say --train-split and --split, of "
            f"{', '.join(splits) or 'none'}"
        )
    if train == test:
        raise UsageError(
            f"{name} would be judged on {test}, which it learns from; choose another --split or "
            "--train-split"
        )
    profile = options.opened()
    tuned, style = tuned_of(profile, agent_role(profile))
    scale = DwimScale(own.workflows, options.samples, tuple(range(options.seeds)), settings)
    components = profile.components()
    temperature = own.temperature
    if temperature is None:
        temperature = components.settings.temperature or TEMPERATURE
    checks_by = own.checks_by or ("rules" if style == "compact" else "llm")
    if checks_by == "llm" and components.settings.prompt_style == "compact":
        raise UsageError(
            f"--checks-by llm: the language model of profile {profile.name} writes programs and "
            "nothing else; take --checks-by rules, or a --profile with a chat model"
        )
    study = DwimStudy(
        components,
        tuned,
        style,
        options.out,
        SampleSplits(name, options.root, train, test),
        scale,
        RunOptions(strategy="explore", temperature=temperature),
        checks_by,
        say=teller(),
    )
    began = time.monotonic()
    with closing(components), hint_to_go_on():
        reproduction = reproduce_dwim(study, quick=options.quick)
    return print_report(reproduction, options.out, began, as_json=options.as_json)
