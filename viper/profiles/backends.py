"""Resolves backend names of profiles to classes, which are imported only when they are used.

A name is one of the shipped names below, an entry point ``ROLE.NAME`` of the group
``viper.backends`` of an installed package, ``module:Class``, or ``./file.py:Class`` for a file
beside the profile.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

from viper.api.routine_files import read_source, run_file
from viper.errors import ProfileError, UnknownNameError, UsageError
from viper.models.libraries import import_libraries
from viper.models.loading import check_loading, split_options
from viper.plugins import Registry, need_packages
from viper.tools.models import ROLES

# Backends that other parts of the profile treat in a way of their own: the text backend that shares
# the profile's language model; the language model that takes pictures, and every role that asks
# one; single frames by the profile's own VQA model and matcher; outlines of the boxes of its own
# detector; a detector in a file that ``viper setup model`` has looked at.
USES_LLM, VLM, FRAMES, SAM2, ONNX = "llm", "vlm", "frames", "sam2", "onnx"

# What to do without a model file: a detector that anybody may use.
FETCH_MODEL = (
    "fetch https://github.com/Megvii-BaseDetection/YOLOX/releases/download/0.1.1rc0/yolox_nano.onnx"
    " (Apache-2.0, 3.7 MB) and run: viper setup model FILE.onnx"
)

# Searches on the web; the options describe the service.
ENGINES = ("searxng", "json")


Kind = Literal["weights", "served", "file", "bundled", "asks_vlm", "shares", "search"]


class Backend(NamedTuple):
    """A backend of this package.

    Attributes:
        target: ``module:class``; loads by ``from_pretrained`` or as called.
        kind: ``weights`` of a model that the profile names, with the options of loading; a model
            that is ``served`` without them; one in a ``file`` of this machine; one that is
            ``bundled`` with a package, so that a profile runs without the package until a program
            calls it; ``asks_vlm``, a chat vision-language model of the role's own or of the
            profile; ``shares`` other models of the profile; ``search`` in data of the user's state
            or on the web.
        packages: optional packages that it imports; with weights, beside ``torch`` and instead of
            ``transformers``.
    """

    target: str
    kind: Kind = "weights"
    packages: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Return all optional packages that it imports."""
        if self.kind != "weights":
            return self.packages
        return ("torch", *(self.packages or ("transformers",)))


_VISION = "viper.models.vision"

# Role -> backend. A new backend is one row here, and its file; see ``docs/extending.md``.
SHIPPED: Mapping[str, Mapping[str, Backend]] = {
    "llm": {
        "transformers": Backend("viper.models.llm.transformers_llm:TransformersLLM"),
        "vllm": Backend("viper.models.llm.vllm_llm:VllmLLM", "served", ("vllm",)),
        "openai": Backend("viper.models.llm.openai_llm:OpenAILLM", "served", ("openai",)),
        VLM: Backend(f"{_VISION}.chat_vlm:ChatVLM"),
    },
    "detector": {
        "owlv2": Backend(f"{_VISION}.detector_owlv2:Owlv2Detector"),
        "zero_shot": Backend(f"{_VISION}.detector_zero_shot:ZeroShotDetector"),
        "grounding_dino": Backend(f"{_VISION}.detector_zero_shot:ZeroShotDetector"),
        "sam3": Backend(f"{_VISION}.segmenter_sam:Sam3Detector"),
        ONNX: Backend(f"{_VISION}.detector_onnx:OnnxDetector", "file", ("onnxruntime", "cv2")),
        VLM: Backend(f"{_VISION}.detector_vlm:VlmDetector", "asks_vlm"),
    },
    "matcher": {
        "open_clip": Backend(
            f"{_VISION}.matcher_open_clip:OpenClipMatcher", packages=("open_clip",)
        ),
        "pixels": Backend(f"{_VISION}.colors:PixelMatcher", "bundled", ("cv2",)),
        VLM: Backend(f"{_VISION}.vlm:VlmMatcher", "asks_vlm"),
    },
    # Any model of transformers for depth; the names are those of the common families.
    "depth": dict.fromkeys(
        ("depth", "depth_anything", "dpt"), Backend(f"{_VISION}.depth:DepthMaps")
    ),
    "vqa": {
        "blip": Backend(f"{_VISION}.vqa_blip:BlipAnswerer"),
        "blip2": Backend(f"{_VISION}.vqa_blip:Blip2Answerer"),
        # ``chat`` is an older name.
        **dict.fromkeys((VLM, "chat"), Backend(f"{_VISION}.vqa_chat:ChatAnswerer", "asks_vlm")),
    },
    "faces": {"opencv": Backend(f"{_VISION}.faces_opencv:OpenCvFaces", "bundled", ("cv2",))},
    "ocr": {
        "rapidocr": Backend(f"{_VISION}.ocr_rapid:RapidOcr", "bundled", ("rapidocr", "onnxruntime"))
    },
    "image_search": {"index": Backend("viper.search.named:NamedPictures", "search", ("usearch",))},
    "text_search": {
        "index": Backend("viper.search.named:NamedTexts", "search", ("tantivy",)),
        **dict.fromkeys(ENGINES, Backend("viper.search.web_text:WebTexts", "search", ("httpx",))),
    },
    "video": {
        "video_events": Backend(
            "viper.embedded.video_events:VideoEvents", packages=("transformers", "timm")
        ),
        **dict.fromkeys((VLM, "chat"), Backend(f"{_VISION}.video_chat:ChatVideo", "asks_vlm")),
        "video_actions": Backend(f"{_VISION}.video_actions:VideoActions"),
        "xclip": Backend(f"{_VISION}.video_xclip:XClipVideo"),
        FRAMES: Backend(f"{_VISION}.video_frames:FramesVideo", "shares"),
    },
    "segmenter": {
        "maskformer": Backend(f"{_VISION}.segmenter_maskformer:MaskFormerSegmenter"),
        SAM2: Backend(f"{_VISION}.segmenter_sam:Sam2Segmenter"),
        "sam3": Backend(f"{_VISION}.segmenter_sam:Sam3Segmenter"),
    },
    "text": {
        USES_LLM: Backend("viper.tools.text:LanguageTool", "shares"),
        VLM: Backend("viper.tools.text:LanguageTool", "asks_vlm"),
    },
    "embedder": {"sentence": Backend(f"{_VISION}.embedder_sentence:SentenceEmbedder")},
    "inpainter": {
        "diffusers": Backend(
            f"{_VISION}.inpainter_diffusers:DiffusersInpainter", packages=("diffusers",)
        )
    },
}

BACKENDS = Registry(
    "viper.backends",
    "backend",
    {f"{role}.{name}": one.target for role, each in SHIPPED.items() for name, one in each.items()},
)

# The method by which a role asks its backend; a matcher has one of two.
_METHODS = {
    "llm": "generate",
    "detector": "detect",
    "depth": "depth",
    "vqa": "answer",
    "segmenter": "segments",
    "inpainter": "inpaint",
    "faces": "faces",
    "ocr": "read",
    "video": "locate",
    "text": "answer",
    "embedder": "embed",
    "image_search": "similar",
    "text_search": "search",
}

# Options that name an address or an environment variable (what is asked goes there, with the key),
# and those that let a checkpoint run code.
OUTSIDE = frozenset({"base_url", "key_env", "url", "trust"})

# Roles whose models compute in float32 unless their own options say otherwise: in 16 bits, boxes
# move by pixels and near objects get equal depths.
FULL_PRECISION = frozenset({"detector", "depth"})

# Options of a vision-language model that the roles which use it may also set.
_VLM_OPTIONS = frozenset({"chat_template_kwargs", "max_pixels", "thinking_tokens"})


def played(role: str) -> str:
    """Return the role whose backends play this one: the role of a tool itself, else ``llm``."""
    return role if role in ROLES else "llm"


def is_installed(role: str, backend: str) -> bool:
    """Return whether a backend is one of viper or of an installed package, and not of a file."""
    return BACKENDS.find(f"{played(role)}.{backend}") is not None


def resolve_backend(role: str, backend: str) -> str:
    """Return the ``module:class`` of a backend.

    Raises:
        UnknownNameError: the role has no backend of that name.
        UsageError: two packages offer the backend.
        ProfileError: it is to be in a file that is missing.
    """
    prefix = f"{played(role)}."
    point = BACKENDS.find(prefix + backend)
    if point is not None:
        return point.value
    if ":" in backend:
        file, is_file, _ = backend.rpartition(".py:")
        if is_file and not Path(f"{file}.py").is_file():
            raise ProfileError(f"{role}: the backend {backend!r} is in no file")
        return backend
    known = [name.removeprefix(prefix) for name in BACKENDS.names() if name.startswith(prefix)]
    choices = [*known, "module:Class", "./file.py:Class"]
    raise UnknownNameError(f"{role} backend", backend, choices)


def shipped(role: str, backend: str) -> Backend | None:
    """Return a backend of this package, or None for another one."""
    return SHIPPED.get(played(role), {}).get(backend)


def kind_of(role: str, backend: str) -> str:
    """Return the kind of a shipped backend, see :class:`Backend`; "" for another one."""
    known = shipped(role, backend)
    return "" if known is None else known.kind


def needs_model(role: str, backend: str) -> bool:
    """Return whether a profile must name a model for the backend."""
    return kind_of(role, backend) in ("", "weights", "served", "file")


def asks_vlm(role: str, backend: str) -> bool:
    """Return whether the backend of a tool asks a chat vision-language model."""
    return kind_of(role, backend) == "asks_vlm"


def takes_pictures(backend: str, options: Mapping[str, Any]) -> bool:
    """Return whether a language model can take pictures; False if it certainly cannot."""
    if backend == "openai":
        return bool(options.get("api", "chat") == "chat")
    return backend != "transformers"


def loads_weights(role: str, backend: str) -> bool:
    """Return whether the backend takes the options of :class:`viper.models.loading.LoadOptions`."""
    return kind_of(role, backend) in ("weights", "asks_vlm")


def check_loading_options(role: str, backend: str, options: Mapping[str, Any]) -> None:
    """Check the options for loading that a role sets itself. Nothing is loaded.

    Raises:
        ProfileError: its backend does not honour one of them.
    """
    kind = loaded_class(role, backend)
    if kind is not None:
        own = set(_option_names(kind))
        check_loading(kind, {name: options[name] for name in options if name not in own})


def loaded_class(role: str, backend: str) -> Any:
    """Return the class that loads the weights of a shipped backend, or None for another one."""
    role, backend = ("llm", VLM) if asks_vlm(role, backend) else (role, backend)
    return backend_class(role, backend) if shipped(role, backend) else None


def check_packages(
    role: str, backend: str, names_model: bool = False, *, loading: bool = False
) -> None:
    """Check that a shipped backend has its packages. Nothing is imported.

    Args:
        names_model: the role names the vision-language model that it asks, and does not share one.
        loading: False before a run, which needs the packages of a bundled model only if it asks it.

    Raises:
        MissingExtraError: one of them is not; the message holds the pip command.
    """
    known = shipped(role, backend)
    if names_model and asks_vlm(role, backend):
        known = shipped("llm", VLM)
    if known is not None and (loading or known.kind != "bundled"):
        need_packages(known.needs, f"the {role} backend {backend!r}")


def backend_class(role: str, backend: str) -> Any:
    """Return the class behind a backend name.

    Raises:
        UnknownNameError: there is no such backend.
        ProfileError: the class cannot be imported.
    """
    target = resolve_backend(role, backend)
    module, _, name = target.rpartition(":")
    try:
        return getattr(_module(module), name)
    except (ImportError, AttributeError, UsageError) as error:
        raise ProfileError(f"{role}: the backend {target!r} cannot be imported: {error}") from None


@cache
def _module(name: str) -> ModuleType:
    """Return the module of that name, or in that ``.py`` file, which runs once in a process."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    return run_file(Path(name), read_source(Path(name)))


def load_backend(role: str, backend: str, source: str | None, options: Mapping[str, Any]) -> Any:
    """Load the backend.

    Raises:
        ProfileError: the backend does not take one of the options.
        ModelError: the model cannot be loaded.
    """
    check_packages(role, backend, loading=True)
    if loads_weights(role, backend):
        import_libraries()
    kind = backend_class(role, backend)
    method = _METHODS.get(played(role), "")
    if not isinstance(kind, type) or (method and not hasattr(kind, method)):
        raise ProfileError(
            f"{role}: the backend {backend!r} is no class with the method {method}(), which its "
            "role asks for"
        )
    return built(role, backend, getattr(kind, "from_pretrained", kind), (source,), options)


def built(
    role: str, backend: str, make: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> Any:
    """Return ``make(*arguments, **options)``.

    Raises:
        ProfileError: ``make`` does not take one of the options; names its options.
    """
    try:
        return make(*arguments, **options)
    except TypeError:
        if not split_options(options)[1].keys() <= _parameters(make).keys():
            raise ProfileError(f"{role}: {_wrong_option(make, backend, options)}") from None
        raise


def check_options(role: str, backend: str, options: Mapping[str, Any]) -> None:
    """Check the options against those that a backend's class takes, without loading anything.

    Raises:
        ProfileError: the class does not take one of the options; names its options.
    """
    kind = backend_class(role, backend)
    if not set(options) <= set(_option_names(kind)):
        raise ProfileError(f"{role}: {_wrong_option(kind, backend, options)}")


def _wrong_option(load: Any, backend: str, options: Mapping[str, Any]) -> str:
    return (
        f"the backend {backend!r} does not take all of the options {', '.join(options)}; "
        f"of its own it takes: {', '.join(_option_names(load)) or 'none'}"
    )


def _option_names(make: Any) -> list[str]:
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return [name for name, each in _parameters(make).items() if each.kind is keyword_only]


def _parameters(make: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class, or those of its ``from_pretrained`` and its own."""
    takers = (make, getattr(make, "__self__", make))
    return {k: v for taker in takers for k, v in inspect.signature(taker).parameters.items()}


@dataclass(frozen=True)
class SharedModel:
    """A language model and how it is loaded; the roles with equal ones share it.

    Attributes:
        options: JSON of those that make it another model. With the backend ``vlm`` only the options
            of loading do, and the others may differ between its roles.
        role: named in errors; equal models may have different ones.
    """

    backend: str
    source: str
    options: str
    role: str = field(compare=False)

    def load(self) -> Any:
        """Load the model.

        Raises:
            ProfileError: an option that its backend does not take.
            ModelError: nothing loadable there.
        """
        return load_backend(self.role, self.backend, self.source, json.loads(self.options))


def vlm_options(
    role: str, backend: str, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a vision-language model in memory, and those of the role that asks it.

    Raises:
        ProfileError: an option that neither takes.
    """
    own = split_options(options)[1]
    if played(role) == "llm":
        check_options(role, backend, own)
        return own, {}
    of_model = {name: own.pop(name) for name in _VLM_OPTIONS & own.keys()}
    check_options(role, backend, own)
    return of_model, own
