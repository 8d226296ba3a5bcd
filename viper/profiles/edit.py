"""Edits of a profile's text: other values, or a tuned model. Comments and layout stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomlkit

from viper.errors import UsageError
from viper.models.loading import split_options
from viper.profiles.document import WRITER, BackendChoice
from viper.profiles.files import whole_api, write_whole_paths
from viper.profiles.wiring import Profile
from viper.schema import to_json
from viper.strategies.confidence import Confidence
from viper.tools.settings import ThresholdSchedule
from viper.tuning.agent.training import TunedAgent

EXPLORER = "explorer"
TUNABLE = "transformers"


def with_values(
    path: Path,
    name: str,
    run: Mapping[str, Any] | None = None,
    sensitivities: Mapping[str, ThresholdSchedule] | None = None,
    confidence: Mapping[str, Confidence] | None = None,
) -> str:
    """Return the text of the profile in ``path`` with another name and these values.

    Paths relative to the profile's folder become absolute, because the new profile may be in
    another folder.

    Args:
        run: keys of ``[run]`` with their new values, written without change.
        sensitivities: new values of threshold schedules by name.
        confidence: new calibrations by name; others stay.
    """
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["name"] = name
    write_whole_paths(document, path.parent)
    if run:
        document.setdefault("run", tomlkit.table()).update(run)
    for key, value in (sensitivities or {}).items():
        thresholds = document.setdefault("sensitivities", tomlkit.table())
        _update(thresholds.setdefault(key, tomlkit.inline_table()), value)
    for key, calibration in (confidence or {}).items():
        calibrations = document.setdefault("confidence", tomlkit.table(is_super_table=True))
        calibrations[key] = to_json(calibration)
    return tomlkit.dumps(document)


def _update(table: Any, value: ThresholdSchedule) -> None:
    """Update the numbers that changed and leave the rest of the text as it is."""
    for part in ("start", "step", "floor", "fixed"):
        number = getattr(value, part)
        if number is not None and table.get(part) != number:
            table[part] = number


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
