"""Flags of workflows beside what people said: precision and recall by kind of action.

Source: DWIM (2025), supplement, sec. 9 and figure 8: several passes of people, the majority counts.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from viper.errors import DataError, StoreError, UsageError
from viper.evaluate.intervals import Estimate, proportion
from viper.models.llm.protocol import LLM
from viper.storage.files import write_file
from viper.storage.json_lines import append_line, read_lines
from viper.tuning.agent.flagging import flagged, flagged_by
from viper.tuning.agent.workflow import Workflow

KINDS = ("code", "thought", "done")

ActionKey = tuple[str, str, int, int]
"""An action: id, manner and seed of its workflow, its index."""


def action_key(workflow: Workflow, index: int) -> ActionKey:
    """Return the key of an action of a workflow."""
    return (workflow.id, workflow.manner, workflow.seed, index)


@dataclass(frozen=True)
class Label:
    """What somebody said of an action in one pass.

    Attributes:
        workflow: its id; a sample has a workflow for each ``manner`` and ``seed``.
        turn: index of the action.
        number: of the pass, from 1.
    """

    workflow: str
    turn: int = field(metadata={"strict": True})
    effective: bool = field(metadata={"strict": True})
    number: int = field(default=1, metadata={"strict": True})
    manner: str = "discrepancy"
    seed: int = field(default=0, metadata={"strict": True})

    @property
    def action(self) -> ActionKey:
        """Return the key of the labelled action."""
        return (self.workflow, self.manner, self.seed, self.turn)


def read_labels(path: Path) -> list[Label]:
    """Read the labels of a file. A missing file has none.

    Raises:
        DataError: a line is no label.
    """
    try:
        return read_lines(path, Label, "a label")
    except StoreError as error:
        raise DataError(
            f"{error}; expected what viper learn label or viper learn flags --out writes"
        ) from None


def write_labels(path: Path, labels: Sequence[Label]) -> None:
    """Write labels to a file in one step and replace its earlier content."""
    write_file(path, "".join(f"{json.dumps(asdict(one))}\n" for one in labels))


def add_label(path: Path, label: Label) -> None:
    """Append a label. It is on disk when this returns."""
    append_line(path, asdict(label))


def said_of(workflow: Workflow, labels: Mapping[ActionKey, bool]) -> dict[int, bool]:
    """Return the labels of a workflow's actions by their index."""
    by_index = {}
    for turn in workflow.turns:
        effective = labels.get(action_key(workflow, turn.index))
        if effective is not None:
            by_index[turn.index] = effective
    return by_index


def majority(labels: Sequence[Label]) -> dict[ActionKey, bool]:
    """Return the majority label of each action. An action with a tie has none.

    The last word of a pass on an action counts.
    """
    last = {(one.action, one.number): one.effective for one in labels}
    votes: dict[ActionKey, list[bool]] = defaultdict(list)
    for (action, _), effective in last.items():
        votes[action].append(effective)
    return {
        key: sum(each) * 2 > len(each) for key, each in votes.items() if sum(each) * 2 != len(each)
    }


@dataclass(frozen=True)
class Agreement:
    """Flags beside labels, for "ineffective" as what is looked for.

    Attributes:
        precision: of the actions flagged, those that people found ineffective too.
        recall: of the actions that people found ineffective, those that are flagged.
    """

    precision: Estimate
    recall: Estimate


@dataclass(frozen=True)
class FlagReport:
    """What the flags of workflows say.

    Attributes:
        workflows: how many.
        actions: by kind.
        reasons: how often an action is ineffective, by reason.
        agreement: by kind of action, and ``all``; empty without labels.
        labelled: actions on which people agreed by majority.
        by_model: actions that a language model spoke of, the rules flag the others; None where
            none was asked.
        labels: the flag of every action, in the form of a label.
    """

    workflows: int
    actions: Mapping[str, int]
    reasons: Mapping[str, int]
    agreement: Mapping[str, Agreement] = field(default_factory=dict)
    labelled: int = 0
    by_model: int | None = None
    labels: tuple[Label, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, without the flags of single actions."""
        return {name: value for name, value in asdict(self).items() if name != "labels"}

    def text(self) -> str:
        """Return a short text for people."""
        total = sum(self.actions.values())
        shares = ", ".join(
            f"{kind} {100 * count / max(1, total):.1f} %" for kind, count in self.actions.items()
        )
        lines = [f"{self.workflows} workflows, {total} actions: {shares}"]
        lines += [f"  {reason}: {count}" for reason, count in self.reasons.items()]
        if self.by_model is not None:
            lines.append(
                f"the language model spoke of {self.by_model} of {total}; the rules flag the others"
            )
        if self.agreement:
            lines.append(f"beside {self.labelled} labelled actions, ineffective ones:")
        for kind, agreement in self.agreement.items():
            precision, recall = agreement.precision, agreement.recall
            lines.append(f"  {kind}: precision {_told(precision)}, recall {_told(recall)}")
        return "\n".join(lines)


def flag_report(
    workflows: Sequence[Workflow], llm: LLM | None = None, labels: Path | None = None
) -> FlagReport:
    """Return the flags of the workflows and their agreement with the labels of people.

    Args:
        llm: flags instead of the rules, where it can be read.

    Raises:
        UsageError: no label is of any of the workflows.
        DataError: the labels cannot be read.
    """
    majority_labels = majority(read_labels(labels)) if labels is not None else {}
    actions: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    reasons: Counter[str] = Counter()
    pairs: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    by_model = 0
    made: list[Label] = []
    for workflow in workflows:
        kinds = {turn.index: turn.kind for turn in workflow.turns}
        for flag in flagged(workflow.turns) if llm is None else flagged_by(llm, workflow):
            kind = kinds[flag.index]
            if kind not in KINDS:
                continue
            actions[kind] += 1
            by_model += flag.by == "llm"
            name, manner, seed, index = action_key(workflow, flag.index)
            made.append(Label(name, index, flag.is_effective, 1, manner, seed))
            if flag.reason:
                reasons[flag.reason] += 1
            person = majority_labels.get(action_key(workflow, flag.index))
            if person is not None:
                for name in (kind, "all"):
                    pairs[name].append((not flag.is_effective, not person))
    if labels is not None and not pairs:
        raise UsageError(f"{labels}: no label of any of the {len(workflows)} workflows")
    agreement = {kind: _agreement(pairs[kind]) for kind in (*KINDS, "all") if kind in pairs}
    return FlagReport(
        len(workflows),
        dict(actions),
        dict(reasons.most_common()),
        agreement,
        len(pairs.get("all", ())),
        None if llm is None else by_model,
        tuple(made),
    )


def _agreement(pairs: Sequence[tuple[bool, bool]]) -> Agreement:
    both = sum(flag and person for flag, person in pairs)
    return Agreement(
        proportion(both, sum(flag for flag, _ in pairs)),
        proportion(both, sum(person for _, person in pairs)),
    )


def _told(one: Estimate) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}] of {one.n}" if one.n else "none"
