"""Which model of a profile is tuned, and the profile that uses the result."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import tomlkit

from viper.errors import UsageError
from viper.models.loading import LoadOptions
from viper.profiles.document import WRITER, BackendChoice
from viper.profiles.edit import whole_api, with_values
from viper.profiles.wiring import Profile
from viper.strategies.settings import RunSettings
from viper.tuning.agent.training import Tuned

EXPLORER = "explorer"
TUNABLE = "transformers"


def tuned_of(profile: Profile) -> tuple[Tuned, str]:
    """The profile's agent as what is tuned, and the style of its prompts.

    Raises:
        UsageError: it is not a model that is loaded here.
    """
    role, choice = _agent(profile)
    if choice.backend != TUNABLE:
        raise UsageError(
            f"the agent of profile {profile.name} runs behind {choice.backend}; only a model that "
            f"is loaded here can be tuned: give [{role}] the backend {TUNABLE}"
        )
    options = profile.options(role, choice)
    load = {one.name: options[one.name] for one in fields(LoadOptions) if one.name in options}
    tuned = Tuned(
        model=str(profile.model_source(choice)),
        adapter=options.get("adapter"),
        template=options.get("template", "auto"),
        load=LoadOptions(**load),
    )
    return tuned, _style(profile, role, choice)


def tuned_profile(
    profile: Profile, name: str, result: Path, is_adapter: bool, api: str | None = None
) -> str:
    """The text of the profile with the tuned model as its ``[explorer]``.

    Args:
        result: folder of the adapter, or of the whole model.
        api: that it was tuned with; None where it is the profile's own.
    """
    role, choice = _agent(profile)
    if profile.document.path is None:
        raise UsageError(f"profile {profile.name} is no file; save it as one first")
    document: Any = tomlkit.parse(
        with_values(
            profile.document.path, name, {"api": whole_api(api, Path.cwd())} if api else None
        )
    )
    table = tomlkit.table()
    options = dict(choice.options)
    if is_adapter:
        options["adapter"] = str(result.resolve())
    table["backend"] = choice.backend
    table["model"] = choice.model if is_adapter else str(result.resolve())
    table["style"] = _style(profile, role, choice)
    table["options"] = _inline(options)
    document[EXPLORER] = table
    return tomlkit.dumps(document)


def _inline(values: dict[str, Any]) -> Any:
    made = tomlkit.inline_table()
    made.update(values)
    return made


def _agent(profile: Profile) -> tuple[str, BackendChoice]:
    document = profile.document
    role = EXPLORER if EXPLORER in document.models else WRITER
    return role, document.models[role]


def _style(profile: Profile, role: str, choice: BackendChoice) -> str:
    settings: RunSettings = profile.document.run
    return choice.style if role == EXPLORER else settings.prompt_style
