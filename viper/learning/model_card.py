"""Model card of a tuned agent: purpose, data, settings, losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from viper.tuning.agent.training import HeldOut, TunedAgent, TuneSettings
from viper.tuning.agent.workflow import Workflow

_LEARNED = {
    "masking": "its effective actions were masked and learned",
    "sft": "all of its actions were learned",
    "random": "actions drawn at random were masked and learned",
    "rethink": "its effective actions and the thoughts that take something back were learned",
}


def model_card(
    name: str,
    tuned: TunedAgent,
    settings: TuneSettings,
    workflows: Sequence[Workflow],
    data: Mapping[str, Any],
    losses: Sequence[tuple[int, float]],
    held_out: HeldOut | None,
    command: str,
) -> str:
    """Return the model card as Markdown.

    Args:
        data: facts about the training data: ``variant``, and further ones to list.
        command: command that repeats the training.
    """
    sets = Counter(workflow.set for workflow in workflows)
    outcomes = Counter(f"{workflow.manner}, {workflow.outcome}" for workflow in workflows)
    first = sum(loss for _, loss in losses[:10]) / max(1, len(losses[:10]))
    last = sum(loss for _, loss in losses[-10:]) / max(1, len(losses[-10:]))
    base = f"`{tuned.model.rsplit('/', 1)[-1]}`" if tuned.model.startswith("/") else tuned.model
    rows = [
        f"# {name}",
        "",
        f"An agent for viper's strategy `explore`, tuned from {base}"
        f"{' with an adapter' if tuned.adapter else ''} on its own workflows (DWIM, 2025): "
        f"{_LEARNED[str(data['variant'])]}.",
        "",
        "```",
        command,
        "```",
        "",
        "## Data",
        "",
        f"{len(workflows)} workflows of {', '.join(f'{n} of {key}' for key, n in sets.items())}: "
        f"{', '.join(f'{count} {what}' for what, count in outcomes.most_common())}. "
        "Learned from: those that ended right.",
        "",
        *(f"- {key}: {value}" for key, value in data.items()),
        "",
        "## Settings",
        "",
        *(f"- {key}: {value}" for key, value in asdict(settings).items()),
        "",
        "## Loss",
        "",
        f"{first:.4f} over the first ten steps, {last:.4f} over the last ten; that of each step "
        "stands in the work folder's losses.jsonl.",
        "",
        "## Scores",
        "",
        _held_out(held_out),
        "",
        "`viper eval SET --strategy explore --profile profile.toml` measures its answers; samples "
        "that it learned from say nothing.",
        "",
    ]
    return "\n".join(rows)


def _held_out(figures: HeldOut | None) -> str:
    if figures is None or figures.after is None:
        return "No workflow was held out."
    return (
        f"Effective actions of workflows that were held out ({figures.tokens:,} tokens in "
        f"{figures.rows} texts): loss of a token {figures.before:.4f} before, "
        f"{figures.after:.4f} after."
    )
