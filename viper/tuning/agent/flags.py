"""Flags of workflows compared with people's labels: precision and recall by kind of action.

The flags come from the rules of :mod:`viper.strategies.explore.flagging`, or from a language model
that reads the whole workflow, which the paper names as the next step (the prompt is ours).

Source: DWIM (2025), supplement, sec. 9 and figure 8: people label in several passes, and the
majority counts.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from viper.errors import DataError, StoreError, UsageError
from viper.evaluate.intervals import Estimate, proportion
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.replies import without_reasoning
from viper.prompting.compact import one_line
from viper.prompting.exploring import step_text
from viper.prompting.template import fill
from viper.storage.files import write_file
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.explore.flagging import Flag, flagged
from viper.strategies.explore.workflow import Workflow, step_of

KINDS = ("code", "thought", "done")

# A reply names a number and one of two words for each action, which takes at most this many.
TOKENS_AN_ACTION = 8

# The reason of a flag that a language model set.
SAID = "said"

# Key of an action: id, collection mode and seed of its workflow, and its index.
ActionKey = tuple[str, str, int, int]


def action_key(workflow: Workflow, index: int) -> ActionKey:
    """Return the key of an action of a workflow."""
    return (workflow.id, workflow.manner, workflow.seed, index)


@dataclass(frozen=True)
class Label:
    """A person's label for an action in one pass.

    Attributes:
        workflow: id of the workflow. A sample has one for each ``manner`` and ``seed``.
        turn: index of the action.
        number: number of the pass, from 1.
        manner: collection mode of the workflow.
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
        DataError: a line is not a label.
    """
    try:
        return read_lines(path, Label, "a label")
    except StoreError as error:
        raise DataError(
            f"{error}; expected what viper learn label or viper learn flags --out writes"
        ) from None


def write_labels(path: Path, labels: Sequence[Label]) -> None:
    """Write labels to a file in one step and replace its earlier content."""
    write_file(path, "".join(f"{json.dumps(asdict(label))}\n" for label in labels))


def add_label(path: Path, label: Label) -> None:
    """Append a label. It is on disk when this returns."""
    append_line(path, asdict(label))


def labels_by_index(workflow: Workflow, labels: Mapping[ActionKey, bool]) -> dict[int, bool]:
    """Return the labels of a workflow's actions by the index of the action."""
    keys = {turn.index: action_key(workflow, turn.index) for turn in workflow.turns}
    return {index: labels[key] for index, key in keys.items() if key in labels}


def majority(labels: Sequence[Label]) -> dict[ActionKey, bool]:
    """Return the majority label of each action. An action with a tie has none.

    If a pass labels an action several times, the last label counts.
    """
    last = {(label.action, label.number): label.effective for label in labels}
    balance: Counter[ActionKey] = Counter()
    for (action, _), effective in last.items():
        balance[action] += 1 if effective else -1
    return {action: votes > 0 for action, votes in balance.items() if votes}


@dataclass(frozen=True)
class Agreement:
    """Agreement of flags with labels; "ineffective" is the positive class.

    Attributes:
        precision: share of the flagged actions that people found ineffective too.
        recall: share of the actions that people found ineffective that are flagged.
    """

    precision: Estimate
    recall: Estimate


@dataclass(frozen=True)
class FlagReport:
    """Summary of the flags of workflows.

    Attributes:
        workflows: number of workflows.
        actions: number of actions by kind.
        reasons: number of ineffective actions by reason.
        agreement: agreement with labels by kind of action, and for ``all``; empty without labels.
        labelled: number of actions with a majority label.
        by_model: number of actions that a language model flagged; the rules flagged the others.
            None if no model was asked.
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
            lines.append(f"  {kind}: precision {_figure(precision)}, recall {_figure(recall)}")
        return "\n".join(lines)


def flag_report(
    workflows: Sequence[Workflow], llm: LLM | None = None, labels: Path | None = None
) -> FlagReport:
    """Return the flags of the workflows and their agreement with the labels of people.

    Args:
        llm: language model that flags instead of the rules, if its reply can be parsed.

    Raises:
        UsageError: none of the labels is for one of the workflows.
        DataError: the labels cannot be read.
    """
    majority_labels = majority(read_labels(labels)) if labels is not None else {}
    actions: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    reasons: Counter[str] = Counter()
    pairs: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    by_model = 0
    flag_labels: list[Label] = []
    for workflow in workflows:
        kinds = {turn.index: turn.kind for turn in workflow.turns}
        for flag in flagged(workflow.turns) if llm is None else flagged_by(llm, workflow):
            kind = kinds[flag.index]
            if kind not in KINDS:
                continue
            actions[kind] += 1
            by_model += flag.by == "llm"
            key = name, mode, seed, index = action_key(workflow, flag.index)
            flag_labels.append(Label(name, index, flag.is_effective, 1, mode, seed))
            if flag.reason:
                reasons[flag.reason] += 1
            if key in majority_labels:
                for name in (kind, "all"):
                    pairs[name].append((not flag.is_effective, not majority_labels[key]))
    if labels is not None and not pairs:
        raise UsageError(f"{labels}: no label of any of the {len(workflows)} workflows")
    agreement: dict[str, Agreement] = {}
    for kind in (*KINDS, "all"):
        if kind in pairs:
            ours, people = zip(*pairs[kind], strict=True)
            both = sum(flag and person for flag, person in pairs[kind])
            agreement[kind] = Agreement(proportion(both, sum(ours)), proportion(both, sum(people)))
    return FlagReport(
        len(workflows),
        dict(actions),
        dict(reasons.most_common()),
        agreement,
        len(pairs.get("all", ())),
        None if llm is None else by_model,
        tuple(flag_labels),
    )


def flagged_by(llm: LLM, workflow: Workflow) -> list[Flag]:
    """Return a flag for every turn by a language model.

    The rules flag the turns that its reply leaves out.
    """
    actions = [turn for turn in workflow.turns if turn.kind in KINDS]
    numbers = {turn.index: number for number, turn in enumerate(actions, start=1)}
    text = ""
    for turn in workflow.turns:
        if turn.index in numbers:
            text += f"Action {numbers[turn.index]}:\n"
        if turn.kind != "forced":
            text += step_text(step_of(turn))
    values = {
        "query": one_line(workflow.query.text),
        "answer": one_line(str(workflow.answer)),
        "outcome": "right" if workflow.outcome in ("right", "copied") else "wrong",
        "workflow": text,
        "count": str(len(actions)),
    }
    sampling = Sampling(max_tokens=TOKENS_AN_ACTION * len(actions) + 16)
    reply = without_reasoning(llm.generate([fill("explore_flag", values)], sampling)[0][0].text)
    reasons = {
        int(match[1]): "" if match[2].lower() == "effective" else SAID
        for match in re.finditer(r"(\d+)\W+(ineffective|effective)\b", reply, re.IGNORECASE)
    }
    return [
        Flag(flag.index, reasons[numbers[flag.index]], "llm")
        if numbers.get(flag.index) in reasons
        else flag
        for flag in flagged(workflow.turns)
    ]


def _figure(share: Estimate) -> str:
    if not share.n:
        return "none"
    return f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}] of {share.n}"
