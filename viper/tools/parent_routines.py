"""Tool routines of a user's file, which run in the parent process with pixels and models.

A tool routine gets the same API objects as a program, patches and segments with all their methods.
If its first parameter is called ``tools``, it also gets :class:`Tools`. :func:`as_tool` wraps a
routine: references in a call become API objects, the routine runs, and the objects in its result
become references again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from viper.api import prelude, registry
from viper.api.image_patch import ImagePatch
from viper.api.routines.documents import in_rows
from viper.api.runtime import ArrayView, Caller, ImageHandle, VideoHandle
from viper.api.video_segment import VideoSegment
from viper.errors import ToolError, ViperError
from viper.models.vision.roles import Pixels
from viper.sandbox import Ref
from viper.sandbox.arrays import Arrays
from viper.sandbox.wire import WireError, encode
from viper.tools.knowledge_tools import text_lines
from viper.tools.pixels import CHANGES, MEASURES, color_of, picture_of
from viper.tools.session import ToolSession


class Tools:
    """Access of a tool routine beside the API: pixels, models, settings of the run."""

    def __init__(self, session: ToolSession) -> None:
        self._session = session

    def pixels(self, patch: ImagePatch) -> Pixels:
        """Return a copy of the patch's pixels, ``uint8 [H, W, 3]`` RGB, top row first."""
        return np.array(self.view(patch))

    def view(self, patch: ImagePatch) -> Pixels:
        """Return the patch's pixels as :meth:`pixels`, read-only and without a copy.

        Raises:
            ToolError: the patch is empty.
        """
        x0, y0, x1, y1 = self.box(patch)
        view = self._session.media.pixels(patch._handle.id)[y0:y1, x0:x1]
        view.flags.writeable = False
        return view

    def box(self, patch: ImagePatch) -> tuple[int, int, int, int]:
        """Return the patch's pixel box in its picture, from the top-left corner.

        Raises:
            ToolError: the patch is empty.
        """
        region = self._session.region(to_ref(patch))
        if region.is_empty:
            raise ToolError("the patch is empty: it has no pixels")
        return region.box

    def picture(self, pixels: Pixels, of: ImagePatch, key: Any = None) -> ImageHandle:
        """Store a picture, ``uint8 [H, W, 3]``, made from a patch; programs get it as a patch.

        Args:
            key: all that the pixels depend on, if it is known; spares their copy and their hash.
        """
        x, y, *_ = self.box(of)
        name = self._session.media.add_edit(pixels, of._handle.id, x, y, key=key)
        return ImageHandle(name, pixels.shape[1], pixels.shape[0], of._handle.call)

    def array(self, patch: ImagePatch) -> Pixels | ArrayView:
        """Return a patch's pixels for a program: a view of a picture that it maps, else a copy.

        Raises:
            ToolError: the API of the run gives programs no arrays, or the patch is empty.
        """
        shared = self._shared()
        name = patch._handle.id
        return ArrayView(name, self.box(patch)) if name in shared else self.pixels(patch)

    def from_array(self, array: Any, of: ImagePatch) -> ImageHandle:
        """Store an array of a program as a picture.

        Raises:
            ToolError: the API of the run gives programs no arrays, or it is no picture.
        """
        self._shared()
        return self.picture(picture_of(array), of)

    def _shared(self) -> Arrays:
        if self._session.shared is None:
            raise ToolError("arrays of pixels need the API numpy, as in --api look+numpy")
        return self._session.shared

    def changed(
        self, name: str, patches: ImagePatch | tuple[ImagePatch, ...], *args: Hashable
    ) -> ImageHandle:
        """Return the picture that a change of :mod:`viper.tools.pixels` makes of patches.

        The same change of the same content is computed once.
        """
        several = patches if isinstance(patches, tuple) else (patches,)
        key, pixels = self._computed(name, CHANGES[name], several, args)
        return self.picture(pixels, several[0], key)

    def measured(self, name: str, patch: ImagePatch, *args: Hashable) -> Any:
        """Return a measure of :mod:`viper.tools.pixels`, computed once for the same content."""
        return self._computed(name, MEASURES[name], (patch,), args)[1]

    def color(self, value: Any) -> tuple[int, int, int]:
        """Return a color by name, ``#rrggbb`` or three numbers as (red, green, blue).

        Raises:
            ToolError: it is none of them.
        """
        return color_of(value)

    def _computed(
        self, name: str, compute: Callable[..., Any], patches: tuple[ImagePatch, ...], args: Any
    ) -> tuple[Any, Any]:
        """Return all that a computation depends on, and its result."""
        hash_of = self._session.media.content_hash
        key = ("pixels", name, args, *((hash_of(p._handle.id), self.box(p)) for p in patches))
        result = self._session.without_model(key, lambda: compute(*map(self.view, patches), *args))
        return key, result

    def show(self, patch: ImagePatch) -> None:
        """Show a patch to the model that writes the code, and keep it for the trace.

        Raises:
            ToolError: the run has shown as many pictures as it may.
        """
        self.box(patch)
        self._session.show(self._session.region(to_ref(patch)))

    def lines(self, patch: ImagePatch) -> list[ImagePatch]:
        """Return the lines of text in a patch as patches whose label is the text, top to bottom."""
        session, region = self._session, self._session.region(to_ref(patch))
        read = text_lines(session, region)
        refs = [session.patch_ref(region.image_id, line.box, label=line.text) for line in read]
        patches = _to_objects(refs, session, _client(session))
        return [line for row in in_rows(patches) for line in row]

    def frames(self, segment: VideoSegment) -> Pixels:
        """Return a copy of the segment's frames, ``uint8 [T, H, W, 3]`` RGB."""
        name, start, end = self._session.segment(to_ref(segment))
        return np.array(self._session.media.frames(name)[start:end])

    def model(self, role: str) -> AbstractContextManager[Any]:
        """Hold the backend of a role for this thread alone: ``with tools.model("vqa") as vqa``."""
        return self._session.toolbox.models.using(role)

    def threshold(self, name: str) -> float:
        """Return the current value of a threshold that the profile declares.

        Raises:
            ToolError: the profile declares none of that name.
        """
        if name not in self._session.thresholds:
            known = ", ".join(self._session.thresholds)
            raise ToolError(f"no threshold {name!r} in this profile; known: {known}")
        return self._session.threshold(name)

    def routine(self, name: str) -> Callable[..., Any]:
        """Return a function of the API or of a file, as in ``tools.routine("best_image_match")``.

        Raises:
            UnknownNameError: there is none of that name.
        """
        own = self._session.toolbox.routines
        routine = own[name] if name in own else registry.REGISTRY.get(name)
        if routine.receives is None:
            return routine.function
        received: dict[str, Any] = {
            registry.TOOLS_PARAMETER: self,
            registry.VARIABLES_PARAMETER: {},
            registry.RATIOS_PARAMETER: self._session.toolbox.settings.depth_ratios,
            registry.CLIENT_PARAMETER: _client(self._session),
        }
        return partial(routine.function, received[routine.receives])


def as_tool(routine: registry.Routine) -> Callable[..., Any]:
    """Return the routine as a tool of the toolbox: references in, references out."""

    def tool(session: ToolSession, *args: Any, **kwargs: Any) -> Any:
        client = _client(session)
        values, named = _to_objects([*args], session, client), _to_objects(kwargs, session, client)
        if routine.receives == registry.TOOLS_PARAMETER:
            values.insert(0, Tools(session))
        try:
            result = _to_refs(routine.function(*values, **named))
        except ViperError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the routine raises
            raise ToolError(f"{routine.name}: {type(error).__name__}: {error}") from error
        try:
            encode(result, [])
        except WireError as error:
            raise ToolError(f"{routine.name}: its result: {error}") from None
        return result

    tool.__name__ = routine.name
    return tool


def to_ref(value: Any) -> Ref:
    """Return the reference of a patch, segment or handle.

    Raises:
        ToolError: the value is none of them.
    """
    ref = prelude.encode(value)
    if ref is None:
        raise ToolError(f"expected a patch or a segment, got {type(value).__name__}")
    return ref


def api_client(session: ToolSession) -> Caller:
    """Return a client for API objects outside programs: its calls go to the session and its log."""
    return _client_of(session, lambda name, args, named: session.call(name, args, named, None))


def _client(session: ToolSession) -> Caller:
    """Return the function by which API objects ask the toolbox directly, as part of a call."""
    return _client_of(session, session.nested)


def _client_of(session: ToolSession, ask: Callable[..., Any]) -> Caller:
    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        return _to_objects(ask(name, _to_refs(args), _to_refs(kwargs)), session, call)

    return call


def _to_refs(values: Any) -> Any:
    return prelude.converted(values, lambda value: prelude.encode(value) or value)


def _to_objects(values: Any, session: ToolSession, call: Callable[..., Any]) -> Any:
    return prelude.converted(values, lambda value: _to_object(value, session, call))


def _to_object(value: Any, session: ToolSession, call: Callable[..., Any]) -> Any:
    if not isinstance(value, Ref):
        return value
    if value.kind in ("segment", "video"):
        name, _, _ = session.segment(value)
        count, height, width = session.media.frames(name).shape[:3]
        video = VideoHandle(name, count, width, height, call)
        if value.kind == "video":
            return video
        return VideoSegment._at(video, (int(value.fields[1]), int(value.fields[2])))
    region = session.region(value)
    image = ImageHandle(region.image_id, *region.image_size, call)
    if value.kind == "image":
        return image
    box = [float(field) for field in value.fields[1:5]]
    # a patch that no tool found has neither
    outline, label = ("", "") if len(value.fields) < 7 else map(str, value.fields[5:7])
    return ImagePatch._at(image, *box, outline=outline, label=label)
