"""Table 10 of DWIM (2025) and its sections 9, 11 and 14, as rows and gains.

What they are made of is :class:`viper_lab.papers.dwim_study.DwimStudy`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from viper.evaluate.intervals import over_seeds, paired
from viper.learning.awareness import CAUSES, Awareness, OfTool, ToolsOf, awareness, causes_of
from viper.sandbox import Sandbox
from viper.tuning.agent.workflow import MANNERS, Workflow
from viper_lab.papers.dwim_study import Agent, DwimStudy
from viper_lab.papers.result import Entry, Gain

TABLE = "table 10"
OF_A_QUESTION = "sections 11 and 14: of a question"
BY_CAUSE = "section 11: answers that are wrong, by cause"
OF_WRONG = "section 11: causes of wrong answers"
CALLS_OF_TOOLS = "section 11: calls of tools by type of question"
RIGHT_OF_TOOLS = "section 11: answers from tools that were right"
ABANDONED = "section 11: answers from tools that were abandoned"


def utilisation_rows(study: DwimStudy, manners: Sequence[str] = MANNERS) -> Iterator[Entry]:
    """Data utilisation by manner; of given answers the copied part beside."""
    for manner in manners:
        by_seed = [study.made(seed, manner) for seed in study.scale.seeds]
        shares = [_share(made, "right") for made in by_seed]
        copied = over_seeds([_share(made, "copied") for made in by_seed])
        note = f"{100 * copied.mean:.1f} % more copied the answer" if copied.mean else ""
        count = sum(map(len, by_seed))
        yield Entry("data utilisation", manner, "all", over_seeds(shares), count, note)


def utilisation_gain(study: DwimStudy, before: str = "standard") -> Gain:
    """The discrepancy-aware manner beside another one, by sample."""
    pairs = [
        (old.outcome == "right", new.outcome == "right", old.unit)
        for seed in study.scale.seeds
        for old, new in zip(study.made(seed, before), study.made(seed, "discrepancy"), strict=True)
    ]
    return _gain("data utilisation", f"{before} -> discrepancy", pairs)


def answer_rows(study: DwimStudy, agents: Sequence[Agent]) -> Iterator[Entry]:
    """Right answers by agent."""
    for agent in agents:
        by_seed = [study.answers(agent, seed) for seed in study.scale.seeds]
        shares = [_share(each, "right", "copied") for each in by_seed]
        yield Entry(TABLE, agent.name, "all", over_seeds(shares), sum(map(len, by_seed)))


def answer_gain(study: DwimStudy, before: Agent, after: Agent) -> Gain:
    """One agent beside another, by sample."""
    pairs = [
        (_is_right(old), _is_right(new), old.unit)
        for seed in study.scale.seeds
        for old, new in zip(study.answers(before, seed), study.answers(after, seed), strict=True)
    ]
    return _gain(TABLE, f"{before.name} -> {after.name}", pairs)


def aware(
    study: DwimStudy, agent: Agent, tools_of: ToolsOf | None, sandbox: Sandbox
) -> list[Awareness]:
    """Section 11's figures of an agent: of all seeds together, then of each."""
    by_seed = [study.answers(agent, seed) for seed in study.scale.seeds]
    causes = [causes_of(each, tools_of, sandbox) for each in by_seed]
    every = [one for each in by_seed for one in each]
    return [
        awareness(every, [cause for each in causes for cause in each]),
        *(awareness(each, why) for each, why in zip(by_seed, causes, strict=True)),
    ]


def awareness_rows(found: Mapping[str, Sequence[Awareness]]) -> Iterator[Entry]:
    """Sections 11 and 14: what a question costs, and why answers are wrong.

    Args:
        found: of each agent what :func:`aware` gives.
    """
    for name, (every, *by_seed) in found.items():
        for family, figures in (
            ("calls of tools", [one.calls.value for one in by_seed]),
            ("turns", [one.turns.value for one in by_seed]),
            ("tokens", [one.tokens.value for one in by_seed]),
            ("seconds", [one.seconds.value for one in by_seed]),
        ):
            yield Entry(OF_A_QUESTION, name, family, over_seeds(figures), every.samples,
                        unit="a question")  # fmt: skip
        for cause in _told(every):
            shares = over_seeds([one.share_of(cause).value for one in by_seed])
            yield Entry(BY_CAUSE, name, cause, shares, every.samples)
        for cause in _told(every):
            wrong = every.share_of_wrong(cause)
            shares = over_seeds([one.share_of_wrong(cause).value for one in by_seed])
            yield Entry(OF_WRONG, name, cause, shares, wrong.n)


def tool_rows(before: Sequence[Awareness], after: Sequence[Awareness]) -> Iterator[Entry]:
    """Section 11 by tool and type of question, of the agent as it came and of the tuned one."""
    agents = (("not tuned", before), ("tuned", after))
    for family, (every, *by_seed) in agents:
        for one in every.tools:
            calls = [each.of_tool(one).calls / max(1, each.samples) for each in by_seed]
            yield Entry(CALLS_OF_TOOLS, _named(one), family, over_seeds(calls), every.samples,
                        unit="a question")  # fmt: skip
    for table in (RIGHT_OF_TOOLS, ABANDONED):
        for family, (every, *by_seed) in agents:
            for one in every.tools:
                answered = [found for each in by_seed if (found := each.of_tool(one)).answers]
                shares = [
                    found.right.value if table == RIGHT_OF_TOOLS
                    else found.abandoned / found.answers
                    for found in answered
                ]  # fmt: skip
                if shares:
                    yield Entry(table, _named(one), family, over_seeds(shares), one.answers)


def _told(found: Awareness) -> Sequence[str]:
    """The causes that can be said of an agent's wrong answers."""
    if "not told" not in found.causes:
        return CAUSES[:-1]
    return [one for one in CAUSES if one not in ("wrong tool", "wrong logic")]


def _named(one: OfTool) -> str:
    return f"{one.tool}: {one.kind}" if one.kind else one.tool


def _share(made: Sequence[Workflow], *outcomes: str) -> float:
    return sum(one.outcome in outcomes for one in made) / max(1, len(made))


def _is_right(one: Workflow) -> bool:
    return one.outcome in ("right", "copied")


def _gain(table: str, name: str, pairs: Sequence[tuple[bool, bool, str]]) -> Gain:
    found = paired(
        [float(old) for old, _, _ in pairs],
        [float(new) for _, new, _ in pairs],
        [one for _, _, one in pairs],
    )
    return Gain(table, name, "all", found.difference)
