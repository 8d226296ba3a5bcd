"""Tool routines of a user's file: they run in the parent, with pixels and models.

A tool routine gets the objects of the API as a program has them, patches and
segments, whose methods work as they do in a program, and :class:`Tools` as its first argument
if it calls that parameter ``tools``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from viper.api import prelude
from viper.api.image_patch import ImagePatch
from viper.api.registry import REGISTRY, Routine
from viper.api.runtime import ImageHandle, VideoHandle
from viper.api.video_segment import VideoSegment
from viper.errors import ToolError, ViperError
from viper.models.vision.roles import Pixels
from viper.sandbox import Ref
from viper.sandbox.wire import WireError, encode
from viper.tools.session import ToolSession


class Tools:
    """What a tool routine may use beside the API: pixels, models, settings of the run."""

    def __init__(self, session: ToolSession) -> None:
        self._session = session

    def pixels(self, patch: ImagePatch) -> Pixels:
        """A copy of the patch's pixels, ``uint8 [H, W, 3]`` RGB, top row first."""
        found = self._session.nested("pixels", (to_ref(patch),), {})
        return np.ascontiguousarray(np.asarray(found).transpose(1, 2, 0))

    def frames(self, segment: VideoSegment) -> Pixels:
        """A copy of the segment's frames, ``uint8 [T, H, W, 3]`` RGB."""
        video = self._session.media.video
        if video is None:
            raise ToolError("this query has no video")
        start, end = self._session.segment(to_ref(segment))
        return np.array(video[start:end])

    def model(self, role: str) -> AbstractContextManager[Any]:
        """The backend of a role, for this thread alone: ``with tools.model("vqa") as vqa``."""
        return self._session.toolbox.models.using(role)

    def threshold(self, name: str) -> float:
        """The value in force of a sensitivity that the profile declares.

        Raises:
            ToolError: it declares none of that name.
        """
        known = self._session.thresholds
        if name not in known:
            raise ToolError(f"no threshold {name!r} in this profile; known: {', '.join(known)}")
        return self._session.threshold(name)

    def routine(self, name: str) -> Callable[..., Any]:
        """A function of the API or of a file, ``tools.routine("best_image_match")``.

        Raises:
            UnknownNameError: there is none of that name.
        """
        own = self._session.toolbox.routines
        found = own[name] if name in own else REGISTRY.get(name)
        client = _client(self._session)
        if found.needs_tools:
            return partial(found.function, self)
        if found.needs_variables:
            return partial(found.function, {})
        return partial(found.function, client) if found.needs_client else found.function


def as_tool(routine: Routine) -> Callable[..., Any]:
    """The routine as the toolbox calls it: references in, references out."""

    def ability(session: ToolSession, *args: Any, **kwargs: Any) -> Any:
        client = _client(session)
        given = [_to_object(arg, session, client) for arg in args]
        named = {key: _to_object(arg, session, client) for key, arg in kwargs.items()}
        if routine.needs_tools:
            given.insert(0, Tools(session))
        try:
            result = _to_refs(routine.function(*given, **named))
        except ViperError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the routine raises
            raise ToolError(f"{routine.name}: {type(error).__name__}: {error}") from error
        try:
            encode(result, [])
        except WireError as error:
            raise ToolError(f"{routine.name}: its result: {error}") from None
        return result

    ability.__name__ = routine.name
    return ability


def to_ref(value: Any) -> Ref:
    """The reference of a patch, segment or handle.

    Raises:
        ToolError: it is none of them.
    """
    found = prelude.encode(value)
    if found is None:
        raise ToolError(f"expected a patch or a segment, got {type(value).__name__}")
    return found


def _client(session: ToolSession) -> Callable[..., Any]:
    """What the API's objects ask in the parent: the toolbox itself, without a pipe between."""

    def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
        plain = {key: _to_refs(value) for key, value in kwargs.items()}
        return _to_object(session.nested(name, _to_refs(args), plain), session, call)

    return call


def _to_refs(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_to_refs(item) for item in value)
    if isinstance(value, dict):
        return {key: _to_refs(item) for key, item in value.items()}
    found = prelude.encode(value)
    return value if found is None else found


def _to_object(value: Any, session: ToolSession, call: Callable[..., Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_to_object(item, session, call) for item in value)
    if isinstance(value, dict):
        return {key: _to_object(item, session, call) for key, item in value.items()}
    if not isinstance(value, Ref):
        return value
    if value.kind in ("segment", "video"):
        session.segment(value)
        count, height, width = session.media.video.shape[:3]  # type: ignore[union-attr]
        video = VideoHandle(str(value.fields[0]), count, width, height, call)
        if value.kind == "video":
            return video
        return VideoSegment._at(video, (int(value.fields[1]), int(value.fields[2])))
    region = session.region(value)
    image = ImageHandle(region.image_id, *region.image_size, call)
    if value.kind == "image":
        return image
    left, lower, right, upper = (float(field) for field in value.fields[1:5])
    outline, label = ("", "") if len(value.fields) < 7 else map(str, value.fields[5:7])
    return ImagePatch._at(image, left, lower, right, upper, outline, label)
