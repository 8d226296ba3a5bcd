"""What the sandbox child gets from the API: its names, what programs may read, its wire form.

The sandbox imports this module by name; it knows nothing of pictures itself. :func:`names` binds
every routine to the client, :func:`encode` and :func:`decode` turn patches, segments and handles
into references and back. A reply holds no sizes of pictures; :func:`_remote_routine` puts them in
from the arguments of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import viper.api.sets  # noqa: F401  (registers every routine)
from viper.api.image_patch import ImagePatch
from viper.api.registry import CLIENT_PARAMETER, RATIOS_PARAMETER, REGISTRY, Routine
from viper.api.runtime import ArrayView, Caller, ImageHandle, VideoHandle
from viper.api.video_segment import VideoSegment
from viper.sandbox import Prelude
from viper.sandbox.wire import Ref

# What a Sandbox takes to run programs of this API.
PRELUDE = Prelude(__name__)

# Attributes that programs may read, per exact type; everything else is refused.
READABLE: Mapping[type, frozenset[str]] = {
    ImagePatch: frozenset(
        {"left", "lower", "right", "upper", "width", "height", "area"}
        | {"horizontal_center", "vertical_center", "cropped_image", "label"}
        | {"find", "exists", "verify_property", "best_text_match", "simple_query", "llm_query"}
        | {"compute_depth", "crop", "overlaps_with", "best_description_from_options"}
        | {"crop_left_of_bbox", "crop_right_of_bbox", "crop_below_bbox", "crop_above_bbox"}
        | {"complex_query", "caption"}
    ),
    VideoSegment: frozenset(
        {"start", "end", "num_frames", "trim", "frame_from_index", "frame_iterator"}
        | {"get_video_segment_of_event", "get_video_segment_before_event"}
        | {"get_video_segment_after_event", "caption_video", "simple_query", "select_answer"}
        | {"overview", "skim", "focus", "time_of", "tracks", "moments", "changes"}
    ),
    ImageHandle: frozenset({"width", "height", "shape"}),
    VideoHandle: frozenset({"num_frames", "width", "height", "shape"}),
}


def names(call: Caller, config: Mapping[str, Any]) -> dict[str, object]:
    """What a program sees: the classes and every routine, whatever API its prompt listed.

    Args:
        call: blocks on the parent; takes and returns the objects of this API.
        config: ``tools`` may list further routines that only the parent knows; ``depth_ratios`` are
            those of the profile.
    """
    namespace: dict[str, object] = {"ImagePatch": ImagePatch, "VideoSegment": VideoSegment}
    for routine in REGISTRY.all():
        namespace[routine.name] = _bound(routine, call, config)
    for name in config.get("tools", ()):
        namespace[name] = _remote_routine(str(name), call)
    return namespace


def encode(obj: object) -> Ref | None:
    """An API object as a reference; None for anything else."""
    if type(obj) is ImagePatch:
        details = (obj._outline, obj._label) if obj._outline or obj._label else ()
        return Ref("patch", (obj._handle.id, *obj._box, *details))
    if type(obj) is VideoSegment:
        return Ref("segment", (obj._handle.id, *obj._range))
    if type(obj) is ImageHandle:
        return Ref("image", (obj.id, obj.width, obj.height))
    if type(obj) is ArrayView:
        return Ref("view", (obj.id, *obj.box))
    if type(obj) is VideoHandle:
        return Ref("video", (obj.id, obj.num_frames, obj.width, obj.height))
    return None


def decode(ref: Ref, call: Caller) -> object:
    """The API object that a reference stands for.

    Patches and segments carry no size of their picture; who asked for them knows
    it and puts it in.

    Raises:
        ValueError: for a kind that this API does not know.
    """
    fields: Any = ref.fields
    if ref.kind == "image":
        image_id, width, height = fields
        return ImageHandle(image_id, width, height, call)
    if ref.kind == "video":
        video_id, num_frames, width, height = fields
        return VideoHandle(video_id, num_frames, width, height, call)
    if ref.kind == "patch":
        details = dict(zip(("outline", "label"), fields[5:], strict=False))
        return ImagePatch._at(ImageHandle(fields[0], 0, 0, call), *fields[1:5], **details)
    if ref.kind == "view":
        name, x0, y0, x1, y1 = fields
        return getattr(call, "arrays", {})[name][y0:y1, x0:x1]
    if ref.kind == "segment":
        return VideoSegment._at(VideoHandle(fields[0], 0, 0, 0, call), tuple(fields[1:]))
    raise ValueError(f"unknown kind of reference: {ref.kind!r}")


def _bound(routine: Routine, call: Caller, config: Mapping[str, Any]) -> Callable[..., Any]:
    if routine.tool:
        return _remote_routine(routine.name, call)
    if routine.receives is None:
        return routine.function
    fixed = {CLIENT_PARAMETER: call, RATIOS_PARAMETER: config.get(RATIOS_PARAMETER, {})}

    def bound(*args: Any, **kwargs: Any) -> Any:
        # Read the variables at the call, because a child gets them after its names
        first = fixed.get(routine.receives or "", getattr(call, "variables", {}))
        return routine.function(first, *args, **kwargs)

    bound.__name__ = routine.name
    return bound


def _remote_routine(name: str, call: Caller) -> Callable[..., Any]:
    """Return a function that calls a routine of the parent and sets the sizes of its patches.

    A picture becomes a patch of the whole of it.
    """

    def ask(*args: Any, **kwargs: Any) -> Any:
        result = call(name, *args, **kwargs)
        handles = {handle.id: handle for handle in _handles((*args, *kwargs.values()))}
        return converted(result, partial(_with_size, handles))

    ask.__name__ = name
    return ask


def _handles(values: Iterable[Any]) -> Iterator[ImageHandle | VideoHandle]:
    for value in values:
        if isinstance(value, ImageHandle | VideoHandle):
            yield value
        elif isinstance(value, ImagePatch | VideoSegment):
            yield value._handle
        elif isinstance(value, list | tuple):
            yield from _handles(value)


def converted(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a value with ``convert`` applied to what its lists, tuples and dicts hold."""
    if isinstance(value, list | tuple):
        return type(value)(converted(item, convert) for item in value)
    if isinstance(value, dict):
        return {key: converted(item, convert) for key, item in value.items()}
    return convert(value)


def _with_size(handles: Mapping[str, ImageHandle | VideoHandle], value: Any) -> Any:
    if isinstance(value, ImageHandle):
        return ImagePatch(value)
    if isinstance(value, ImagePatch):
        own = value._handle
        handle, source = handles.get(own.id), handles.get(own.id.partition("#")[0])
        if handle is None and isinstance(source, VideoHandle):
            handle = ImageHandle(own.id, source.width, source.height, own.call)
        return value._in(handle) if isinstance(handle, ImageHandle) else value
    if isinstance(value, VideoSegment):
        handle = handles.get(value._handle.id)
        return VideoSegment._at(handle, value._range) if isinstance(handle, VideoHandle) else value
    return value
