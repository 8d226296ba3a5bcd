"""Which roles of a profile are played by one loaded model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from viper.models.loading import LoadOptions
from viper.profiles.backends import backend_class, built, check_options

_ON_A_CHAT_MODEL = {("vqa", "chat"), ("video", "chat")}
"""Role and backend of those whose class takes a loaded ChatVLM."""

_LOADING = {field.name for field in fields(LoadOptions)}


@dataclass(frozen=True)
class SharedModel:
    """A chat checkpoint and how it is loaded; roles with equal ones share it."""

    source: str
    loading: LoadOptions

    def load(self, role: str, backend: str, options: Mapping[str, Any]) -> Any:
        """The model, for the first of its roles.

        Raises:
            ProfileError: an option that the role's backend does not take; nothing was loaded.
            ModelError: nothing loadable there.
        """
        from viper.models.vision.chat_vlm import ChatVLM

        check_options(role, backend, _own(options))
        return ChatVLM.from_pretrained(self.source, **asdict(self.loading))


def shared_model(
    role: str, backend: str, source: str | None, options: Mapping[str, Any]
) -> SharedModel | None:
    """What a role may share; None for one that loads its own weights, or names no model.

    Raises:
        ProfileError: a value that no checkpoint can be loaded with.
    """
    if source is None or (role, backend) not in _ON_A_CHAT_MODEL:
        return None
    loading = {name: value for name, value in options.items() if name in _LOADING}
    return SharedModel(source, LoadOptions(**loading))


def on_shared_model(role: str, backend: str, options: Mapping[str, Any], model: Any) -> Any:
    """The backend of a role on its loaded model.

    Raises:
        ProfileError: an option that it does not take, or a wrong value.
    """
    return built(role, backend, backend_class(role, backend), (model,), _own(options))


def _own(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that do not say how weights are loaded."""
    return {name: value for name, value in options.items() if name not in _LOADING}
