"""Which class a backend name in a profile stands for; imported only when it is wired.

A name is one of the shipped ones below, an entry point ``ROLE.NAME`` of the group
``viper.backends`` that an installed package offers, or ``module:Class``.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from viper.errors import MissingExtraError, ProfileError, UnknownNameError
from viper.models.loading import LoadOptions, split_options
from viper.tools.models import ROLES

ENTRY_POINTS = "viper.backends"

USES_LLM = "llm"
"""The text backend that shares the profile's language model instead of loading one."""

FRAMES = "frames"
"""The video backend that asks the profile's own VQA model and matcher about single frames."""

OPENCV = "opencv"
"""The face detector whose model comes with OpenCV."""

RAPIDOCR = "rapidocr"
"""The reader whose models come with RapidOCR."""

INDEX = "index"
"""Searches of what ``viper setup index`` has indexed; the model is the index's name."""

ENGINES = ("searxng", "json")
"""Searches on the web; what to ask stands in the options."""

SHIPPED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "llm": {
            "transformers": "viper.models.llm.transformers_llm:TransformersLLM",
            "vllm": "viper.models.llm.vllm_llm:VllmLLM",
            "openai": "viper.models.llm.openai_llm:OpenAILLM",
        },
        "detector": {
            "owlv2": "viper.models.vision.detector_owlv2:Owlv2Detector",
            "grounding_dino": "viper.models.vision.detector_grounding_dino:GroundingDinoDetector",
        },
        "matcher": {"open_clip": "viper.models.vision.matcher_open_clip:OpenClipMatcher"},
        "depth": {
            "depth_anything": "viper.models.vision.depth:DepthAnythingEstimator",
            "dpt": "viper.models.vision.depth:DptEstimator",
        },
        "vqa": {
            "blip": "viper.models.vision.vqa_blip:BlipAnswerer",
            "blip2": "viper.models.vision.vqa_blip2:Blip2Answerer",
            "chat": "viper.models.vision.vqa_chat:ChatAnswerer",
        },
        "faces": {OPENCV: "viper.models.vision.faces_opencv:OpenCvFaces"},
        "ocr": {RAPIDOCR: "viper.models.vision.ocr_rapid:RapidOcr"},
        "image_search": {INDEX: "viper.search.named:NamedPictures"},
        "text_search": {
            INDEX: "viper.search.named:NamedTexts",
            "searxng": "viper.search.web_text:WebTexts",
            "json": "viper.search.web_text:WebTexts",
        },
        "video": {
            "video_events": "viper.models.vision.video_events:VideoEvents",
            "chat": "viper.models.vision.video_chat:ChatVideo",
            "xclip": "viper.models.vision.video_xclip:XClipVideo",
            FRAMES: "viper.models.vision.video_frames:FramesVideo",
        },
        "segmenter": {"maskformer": "viper.models.vision.segmenter_maskformer:MaskFormerSegmenter"},
        "text": {USES_LLM: "viper.tools.text:LanguageTool"},
        "embedder": {"sentence": "viper.models.vision.embedder_sentence:SentenceEmbedder"},
        "inpainter": {"diffusers": "viper.models.vision.inpainter_diffusers:DiffusersInpainter"},
    }
)
"""Role -> backend -> ``module:class``; loads by ``from_pretrained`` or as called."""

SEARCHES = frozenset(
    {("image_search", INDEX), ("text_search", INDEX), *(("text_search", one) for one in ENGINES)}
)
"""Role and backend of those that keep something in the user's state."""

_WITHOUT_MODEL = {("text", USES_LLM), ("video", FRAMES), ("faces", OPENCV), ("ocr", RAPIDOCR)}
_WITHOUT_MODEL |= SEARCHES
_WITHOUT_WEIGHTS = {("llm", "openai"), ("llm", "vllm"), *_WITHOUT_MODEL}
"""Those that take no options of how weights are loaded."""

_EXTRAS = {
    ("llm", "vllm"): ("vllm", "vllm"),
    ("llm", "openai"): ("openai", "openai"),
    **{("text_search", one): ("httpx", "web-search") for one in ENGINES},
}
"""Package and extra of those that need one."""

_ON_A_CHAT_MODEL = {("vqa", "chat"), ("video", "chat")}
"""Role and backend of those whose class takes a loaded ChatVLM."""


def played(role: str) -> str:
    """Return the role whose backends play this one. Roles that are no tool's are language
    models."""
    return role if role in ROLES else "llm"


def installed_backends() -> dict[str, str]:
    """Return the backends of installed packages, from ``ROLE.NAME`` to ``module:class``."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def known_backends(role: str) -> dict[str, str]:
    """Return the backends of a role, from name to ``module:class``, installed packages included."""
    role = played(role)
    backends = dict(SHIPPED.get(role, {}))
    for name, target in installed_backends().items():
        of_role, _, backend = name.partition(".")
        if of_role == role and backend:
            backends[backend] = target
    return backends


def resolve_backend(role: str, backend: str) -> str:
    """Return the ``module:class`` of a backend.

    Raises:
        UnknownNameError: no backend of that name plays the role.
    """
    backends = known_backends(role)
    if backend in backends:
        return backends[backend]
    if ":" in backend:
        return backend
    raise UnknownNameError(f"{role} backend", backend, [*backends, "module:Class"])


def needs_model(role: str, backend: str) -> bool:
    """Return whether a profile must name a model for the backend."""
    return (played(role), backend) not in _WITHOUT_MODEL


def loads_weights(role: str, backend: str) -> bool:
    """Return whether the backend takes the options of :class:`viper.models.loading.LoadOptions`."""
    role = played(role)
    return (role, backend) not in _WITHOUT_WEIGHTS and backend in SHIPPED.get(role, {})


def extra_of(role: str, backend: str) -> tuple[str, str] | None:
    """Return the ``(package, extra)`` that a backend needs beside the core, or None."""
    return _EXTRAS.get((played(role), backend))


def backend_class(role: str, backend: str) -> Any:
    """Return the class behind a backend name.

    Raises:
        UnknownNameError: no such backend.
        ProfileError: ``module:Class`` names something that cannot be imported.
    """
    target = resolve_backend(role, backend)
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ProfileError(f"{role}: the backend {target!r} cannot be imported: {error}") from None


def load_backend(role: str, backend: str, source: str | None, options: Mapping[str, Any]) -> Any:
    """Load the backend.

    Raises:
        ProfileError: an option that the backend does not take, or no model named.
        ModelError: nothing loadable there.
    """
    if source is None and needs_model(role, backend):
        raise ProfileError(f"{role}: the backend {backend!r} needs a model (a folder or a hub id)")
    kind = backend_class(role, backend)
    return built(role, backend, getattr(kind, "from_pretrained", kind), (source,), options)


def built(
    role: str, backend: str, make: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> Any:
    """Call ``make(*given, **options)`` and report wrong options.

    Raises:
        ProfileError: an option that it does not take; names those that it does.
    """
    try:
        return make(*arguments, **options)
    except TypeError as error:
        if "unexpected keyword" in str(error):
            raise ProfileError(f"{role}: {_wrong_option(make, backend, options)}") from None
        raise


def check_options(role: str, backend: str, options: Mapping[str, Any]) -> None:
    """Check the options against those that a backend's class takes, without loading anything.

    Raises:
        ProfileError: one that it does not take; names those that it does.
    """
    kind = backend_class(role, backend)
    if not set(options) <= set(_taken(kind)):
        raise ProfileError(f"{role}: {_wrong_option(kind, backend, options)}")


def _wrong_option(load: Any, backend: str, options: Mapping[str, Any]) -> str:
    return (
        f"the backend {backend!r} does not take all of the options {', '.join(options)}; "
        f"of its own it takes: {', '.join(_taken(load)) or 'none'}"
    )


def _taken(load: Any) -> list[str]:
    parameters: dict[str, inspect.Parameter] = {}
    for taker in (load, getattr(load, "__self__", load)):
        parameters |= inspect.signature(taker).parameters
    return [name for name, one in parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY]


def missing_extra(role: str, backend: str) -> MissingExtraError | None:
    """Return an error for a package that a backend needs and that is not installed, or None."""
    from importlib.util import find_spec

    extra = extra_of(role, backend)
    if extra is None or find_spec(extra[0]) is not None:
        return None
    return MissingExtraError(*extra, needed_for=f"the {role} backend {backend!r}")


@dataclass(frozen=True)
class SharedModel:
    """A chat checkpoint and how it is loaded; roles with equal ones share it."""

    source: str
    loading: LoadOptions

    def load(self, role: str, backend: str, options: Mapping[str, Any]) -> Any:
        """Load the model for the first of its roles.

        Raises:
            ProfileError: an option that the role's backend does not take; nothing was loaded.
            ModelError: nothing loadable there.
        """
        from viper.models.vision.chat_vlm import ChatVLM

        check_options(role, backend, split_options(options)[1])
        return ChatVLM.from_pretrained(self.source, **asdict(self.loading))


def shared_model(
    role: str, backend: str, source: str | None, options: Mapping[str, Any]
) -> SharedModel | None:
    """Return the model that a role may share, or None if it loads its own weights or names no
    model.

    Raises:
        ProfileError: a value that no checkpoint can be loaded with.
    """
    if source is None or (role, backend) not in _ON_A_CHAT_MODEL:
        return None
    return SharedModel(source, split_options(options)[0])


def on_shared_model(role: str, backend: str, options: Mapping[str, Any], model: Any) -> Any:
    """Build the backend of a role on its loaded model.

    Raises:
        ProfileError: an option that it does not take, or a wrong value.
    """
    return built(role, backend, backend_class(role, backend), (model,), split_options(options)[1])
