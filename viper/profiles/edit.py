"""Edits of a profile's text: other values, or a tuned model. Comments and layout stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from viper.api.library import split_api
from viper.errors import UsageError
from viper.models.loading import split_options
from viper.profiles.document import WRITER, BackendChoice, language_models
from viper.profiles.wiring import Profile
from viper.strategies.settings import all_settings
from viper.tools.settings import ThresholdSchedule
from viper.tuning.agent.training import TunedAgent

EXPLORER = "explorer"
TUNABLE = "transformers"


def with_values(
    path: Path,
    name: str,
    run: Mapping[str, Any] | None = None,
    sensitivities: Mapping[str, ThresholdSchedule] | None = None,
) -> str:
    """Return the text of the profile in ``path`` with another name and these values.

    Paths relative to the profile's folder become absolute, because the new profile may be in
    another folder.

    Args:
        run: keys of ``[run]`` with their new values, written without change.
        sensitivities: new values of threshold schedules by name.
    """
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["name"] = name
    _write_whole_paths(document, path.parent)
    if run:
        document.setdefault("run", tomlkit.table()).update(run)
    for key, value in (sensitivities or {}).items():
        _update(document["sensitivities"][key], value)
    return tomlkit.dumps(document)


def whole_path(path: str, base: Path) -> str:
    """Return a path relative to a folder as an absolute path."""
    return str((base / Path(path).expanduser()).resolve())


def whole_api(api: str, base: Path) -> str:
    """Return the name of an API with absolute paths."""
    return "+".join(
        whole_path(part, base) if part.endswith(".py") else part for part in split_api(api)
    )


def _write_whole_paths(document: Any, base: Path) -> None:
    """Replace the paths that are relative to the profile's folder.

    :class:`viper.profiles.wiring.Profile` resolves the same ones.
    """
    run = document.get("run", {})
    bank, api = run.get("bank"), run.get("api")
    if bank is not None and not bank.startswith("embedded:"):
        run["bank"] = str((base / bank).resolve())
    if api is not None and ".py" in api:
        run["api"] = whole_api(api, base)
    for setting in all_settings().values():
        if setting.declaration.is_path:
            for table in (run, run.get(setting.strategy, {})):
                _write_whole(table, setting.name, base)
    writers = (document.get(name, {}) for name in language_models())
    for choice in (*writers, *document.get("roles", {}).values()):
        _write_whole(choice, "model", base)
        _write_whole(choice.get("options", {}), "adapter", base)


def _write_whole(table: Any, key: str, base: Path) -> None:
    """Replace the path under a key if it is relative to the profile's folder."""
    if str(table.get(key, "")).startswith(("./", "../")):
        table[key] = str((base / table[key]).resolve())


def _update(table: Any, value: ThresholdSchedule) -> None:
    """Update the numbers that changed and leave the rest of the text as it is."""
    for part in ("start", "step", "floor", "fixed"):
        number = getattr(value, part)
        if number is not None and table.get(part) != number:
            table[part] = number


def tuned_of(profile: Profile) -> tuple[TunedAgent, str]:
    """Return the profile's agent as the model to tune, and the style of its prompts.

    Raises:
        UsageError: the agent's model is not loaded locally.
    """
    role, choice, style = _agent(profile)
    if choice.backend != TUNABLE:
        raise UsageError(
            f"the agent of profile {profile.name} runs behind {choice.backend}; only a model that "
            f"is loaded here can be tuned: give [{role}] the backend {TUNABLE}"
        )
    options = profile.options(role, choice)
    tuned = TunedAgent(
        model=str(profile.model_source(choice)),
        adapter=options.get("adapter"),
        template=options.get("template", "auto"),
        load=split_options(options)[0],
    )
    return tuned, style


def tuned_profile(
    profile: Profile, name: str, result: Path, is_adapter: bool, api: str | None = None
) -> str:
    """Return the text of the profile with the tuned model as its ``[explorer]``.

    Args:
        result: folder of the adapter, or of the whole model.
        api: API that it was tuned with; None for the profile's own.
    """
    _, choice, style = _agent(profile)
    if profile.document.path is None:
        raise UsageError(f"profile {profile.name} is no file; save it as one first")
    run = {"api": whole_api(api, Path.cwd())} if api else None
    document: Any = tomlkit.parse(with_values(profile.document.path, name, run))
    whole = str(result.resolve())
    options: Any = tomlkit.inline_table()
    options.update({**choice.options, "adapter": whole} if is_adapter else choice.options)
    table: Any = tomlkit.table()
    table["backend"] = choice.backend
    table["model"] = choice.model if is_adapter else whole
    table["style"] = style
    table["options"] = options
    document[EXPLORER] = table
    return tomlkit.dumps(document)


def _agent(profile: Profile) -> tuple[str, BackendChoice, str]:
    """Return the role of the agent's model, the model, and the style of its prompts."""
    models = profile.document.models
    if EXPLORER in models:
        return EXPLORER, models[EXPLORER], models[EXPLORER].style
    return WRITER, models[WRITER], profile.document.run.prompt_style
