"""Which class a backend name in a profile stands for; imported only when it is wired."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from viper.errors import ProfileError, UnknownNameError

LLM_BACKENDS: Mapping[str, str] = MappingProxyType(
    {"transformers": "viper.llm.transformers_llm:TransformersLLM"}
)

ROLE_BACKENDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "detector": {"owlv2": "viper.tools.detector_owlv2:Owlv2Detector"},
        "matcher": {"open_clip": "viper.tools.matcher_open_clip:OpenClipMatcher"},
        "depth": {"depth_anything": "viper.tools.depth_anything:DepthAnythingEstimator"},
        "vqa": {"blip": "viper.tools.vqa_blip:BlipAnswerer"},
        "video": {"video_events": "viper.tools.video_events:VideoEvents"},
        "text": {"llm": "viper.tools.text:LanguageTool"},
    }
)
"""Role -> backend -> ``module:class``; loads by ``from_pretrained`` or as called."""

USES_LLM = "llm"
"""The text backend that shares the profile's language model instead of loading one."""


def check_backend(role: str, backend: str) -> None:
    """Raises UnknownNameError where no backend of that name plays the role."""
    known = LLM_BACKENDS if role == "llm" else ROLE_BACKENDS[role]
    if backend not in known:
        raise UnknownNameError(f"{role} backend", backend, known)


def load_backend(role: str, backend: str, source: str | None, options: Mapping[str, Any]) -> Any:
    """The loaded backend.

    Raises:
        ProfileError: an option that the backend does not take, or no model named.
    """
    check_backend(role, backend)
    path = (LLM_BACKENDS if role == "llm" else ROLE_BACKENDS[role])[backend]
    module, name = path.split(":")
    if source is None:
        raise ProfileError(f"{role}: the backend {backend!r} needs a model (a folder or a hub id)")
    kind = getattr(importlib.import_module(module), name)
    load = getattr(kind, "from_pretrained", kind)
    try:
        return load(source, **options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise ProfileError(
                f"{role}: the backend {backend!r} takes no such option: {error}"
            ) from None
        raise
