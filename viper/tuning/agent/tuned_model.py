"""The model of a profile that is tuned, the profile that uses the result, and its model card.

`tuned_of` reads the model to tune from a profile, `tuned_profile` writes the profile that uses the
result, and `model_card` tells how it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import tomlkit

from viper.errors import UsageError
from viper.models.loading import split_options
from viper.profiles.document import WRITER, BackendChoice
from viper.profiles.files import whole_api, with_values
from viper.profiles.wiring import Profile
from viper.strategies.explore.workflow import Workflow
from viper.tuning.agent.training import HeldOut, TunedAgent, TuneSettings

EXPLORER = "explorer"
TUNABLE = "transformers"

_LEARNED = {
    "masking": "its effective actions were masked and learned",
    "sft": "all of its actions were learned",
    "random": "actions drawn at random were masked and learned",
    "rethink": "its effective actions and the thoughts that take something back were learned",
}


def agent_role(profile: Profile) -> str:
    """Return the role of the agent's model: the explorer, or else the program writer."""
    return EXPLORER if EXPLORER in profile.document.models else WRITER


def tuned_of(profile: Profile, role: str) -> tuple[TunedAgent, str]:
    """Return the model of a role as the model to tune, and the style of its prompts.

    Raises:
        UsageError: the model is not loaded locally.
    """
    choice, style = _model(profile, role)
    if choice.backend != TUNABLE:
        raise UsageError(
            f"[{role}] of profile {profile.name} runs behind {choice.backend}; only a model that "
            f"is loaded here can be tuned: give it the backend {TUNABLE}"
        )
    options = profile.options(role, choice)
    tuned = TunedAgent(
        model=str(profile.model_source(choice)),
        adapter=options.get("adapter"),
        template=options.get("template", "auto"),
        load=split_options(options)[0],
    )
    return tuned, style


def with_adapter(profile: Profile, role: str, adapter: Path) -> Profile:
    """Return the profile with an adapter for the model of a role."""
    choice = profile.document.models[role]
    options = {**choice.options, "adapter": str(adapter.resolve())}
    models = {**profile.document.models, role: replace(choice, options=options)}
    return replace(profile, document=replace(profile.document, models=models))


def tuned_profile(
    profile: Profile,
    name: str,
    result: Path,
    is_adapter: bool,
    role: str = EXPLORER,
    api: str | None = None,
) -> str:
    """Return the text of the profile with the tuned model in a role.

    Args:
        result: folder of the adapter, or of the whole model.
        api: API that it was tuned with; None for the profile's own.
    """
    choice, style = _model(profile, role if role == WRITER else agent_role(profile))
    if profile.document.path is None:
        raise UsageError(f"profile {profile.name} is no file; save it as one first")
    run = {"api": whole_api(api, Path.cwd())} if api else None
    document: Any = tomlkit.parse(with_values(profile.document.path, name, run))
    whole = str(result.resolve())
    options: Any = tomlkit.inline_table()
    options.update({**choice.options, "adapter": whole} if is_adapter else choice.options)
    table: Any = tomlkit.table()
    table["backend"] = choice.backend
    table["model"] = profile.beside(choice.model or "") if is_adapter else whole
    if role != WRITER:  # its style is the prompt_style of [run]
        table["style"] = style
    table["options"] = options
    document[role] = table
    return tomlkit.dumps(document)


def _model(profile: Profile, role: str) -> tuple[BackendChoice, str]:
    """Return the model of a role and the style of its prompts."""
    choice = profile.document.models[role]
    return choice, profile.document.run.prompt_style if role == WRITER else choice.style


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
    first, last = (
        sum(loss for _, loss in some) / max(1, len(some)) for some in (losses[:10], losses[-10:])
    )
    scores = "No workflow was held out."
    if held_out is not None and held_out.after is not None:
        scores = (
            f"Effective actions of workflows that were held out ({held_out.tokens:,} tokens in "
            f"{held_out.rows} texts): loss of a token {held_out.before:.4f} before, "
            f"{held_out.after:.4f} after."
        )
    base = f"`{tuned.model.rsplit('/', 1)[-1]}`" if tuned.model.startswith("/") else tuned.model
    facts, settings_used = (
        "\n".join(f"- {key}: {value}" for key, value in each.items())
        for each in (data, asdict(settings))
    )
    template = (resources.files(__package__ or "") / "model_card.md").read_text("utf-8")
    return Template(template).substitute(
        name=name,
        base=f"{base} with an adapter" if tuned.adapter else base,
        learned=_LEARNED[str(data["variant"])],
        command=command,
        count=len(workflows),
        sets=", ".join(f"{n} of {key}" for key, n in sets.items()),
        outcomes=", ".join(f"{count} {what}" for what, count in outcomes.most_common()),
        facts=facts,
        settings=settings_used,
        first=f"{first:.4f}",
        last=f"{last:.4f}",
        scores=scores,
    )
