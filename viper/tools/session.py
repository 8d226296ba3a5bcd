"""Tool session of one run: its media, its thresholds and its call log.

:meth:`ToolSession.call` answers a call of the program: the tool's function gets the session,
resolves references to pixels (:meth:`ToolSession.region`), asks models through the caches
(:meth:`ToolSession.encoded`, :meth:`ToolSession.computed`) and records the scores that a threshold
decided on. What happened meanwhile is written into the log as one :class:`~viper.schema.ToolCall`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import Any, Protocol

import numpy as np

from viper.api.registry import Routine
from viper.errors import ToolError, ViperError
from viper.models.llm.messages import MAX_PIXELS, Picture
from viper.models.llm.protocol import NO_PAYER, Payer
from viper.models.media import Media
from viper.models.vision.soft_prompts import SoftPromptSource
from viper.sandbox import Ref
from viper.sandbox.arrays import Arrays
from viper.schema import Box, PixelBox, ToolCall
from viper.storage.cache import ComputeCache
from viper.tools.call_log import describe, logged, plain
from viper.tools.models import ModelSet
from viper.tools.settings import DEFAULT_THRESHOLDS, ToolSettings
from viper.tools.side_by_side import LookAhead

# Default of the number of pictures that a run may show to a model: a loop must not fill the prompt.
MAX_SHOWN = 100

# Name of the tool that shows a picture; the result of a logged call is the picture.
SHOW = "show"

# Number of candidate scores that the log of a call keeps, best first: self-tuning and attribution
# look at those near the threshold, and stored traces stay small.
SCORES_KEPT = 16

_NO_OVERRIDE = object()

Arguments = Callable[[], Sequence[Any]]

# Errors that models and tools raise on odd arguments; the program gets a ToolError.
MODEL_ERRORS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RuntimeError)


@dataclass(frozen=True)
class Region:
    """Part of a picture: a pixel box from the top-left corner, in whole numbers."""

    image_id: str
    box: tuple[int, int, int, int]
    image_size: tuple[int, int]

    @property
    def is_whole(self) -> bool:
        return self.box == (0, 0, *self.image_size)

    @property
    def is_empty(self) -> bool:
        return self.box[0] >= self.box[2] or self.box[1] >= self.box[3]


class SharedTools(Protocol):
    """Models, caches and tools that all runs share, as a session uses them.

    :class:`viper.tools.toolbox.Toolbox` implements it.

    Attributes:
        tools: the function of every tool by name; it takes the session and the arguments.
    """

    models: ModelSet
    settings: ToolSettings
    routines: dict[str, Routine]
    tools: Mapping[str, Callable[..., Any]]
    soft_prompts: SoftPromptSource
    encodings: ComputeCache
    results: ComputeCache

    def ask(
        self, role: str, operation: str, *args: Any, payer: Payer = NO_PAYER, **named: Any
    ) -> Any:
        """Return the answer of a role's backend."""


@dataclass
class _CurrentCall:
    """What the log will say about the call that is being answered, calls within it included."""

    shown_picture: Ref | None = None
    rejected_by: str | None = None
    shortened_by: str | None = None
    judged_by: str | None = None
    scores: tuple[float, ...] = ()
    from_cache: bool = False
    computed: bool = False
    note: str = ""
    missed: dict[str, float] = field(default_factory=dict)
    soft_prompts: dict[str, None] = field(default_factory=dict)


class ToolSession:
    """Tool client of one run; implements ``viper.sandbox.ToolClient``.

    Attributes:
        calls: every call so far in order, failed ones included.
        thresholds: the current values.
        missed: threshold -> highest value below the current one that may change the result of a
            call so far; no entry if no lower value changes any.
        model_calls: forward passes that this run needed; cached encodings and results cost none.
        look_for: texts with names of objects that a video model should look for in particular.
        shared: pictures of the query that the program maps; None if it may have no arrays.
        max_shown: number of pictures that the run may show to a model.
        max_shown_pixels: pictures with more pixels are scaled down before they are shown.
    """

    def __init__(
        self,
        toolbox: SharedTools,
        media: Media,
        thresholds: dict[str, float],
        overrides: dict[int, Any],
        payer: Payer = NO_PAYER,
    ) -> None:
        self.toolbox, self.media, self.thresholds = toolbox, media, thresholds
        self._overrides, self.payer = overrides, payer
        self.calls: list[ToolCall] = []
        self.missed: dict[str, float] = {}
        self.model_calls = 0
        self._ahead = LookAhead("")
        self._result: Any = None
        self.look_for: tuple[str, ...] = ()
        self.max_shown, self.max_shown_pixels = MAX_SHOWN, MAX_PIXELS
        self.shared: Arrays | None = None
        self._now = _CurrentCall()

    @contextmanager
    def running(self, program: str) -> Iterator[None]:
        """Ask early within the block for what the program will certainly need."""
        if not self._overrides:
            self._ahead = LookAhead(program)
        with self._ahead.running():
            yield

    @property
    def names(self) -> tuple[str, ...]:
        """Return what the program looks for; one request to an endpoint asks for all of it."""
        return self._ahead.names

    def ahead(self, name: str, args: tuple[Any, ...]) -> ToolSession:
        """Answer a call before the program makes it; this copy of the session keeps how."""
        self._now, self.model_calls = _CurrentCall(), 0
        try:
            self._result = self.nested(name, args, {})
        except Exception as error:  # noqa: BLE001 (boundary: raised where the program calls)
            self._result = error
        return self

    def take_over(self, early: ToolSession) -> Any:
        """Return what a call before its time returned, or raise its error; the log tells how."""
        self._now = early._now
        self.model_calls += early.model_calls
        if isinstance(early._result, Exception):
            raise early._result
        return early._result

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        """Answer one call of the program.

        Raises:
            ToolError: unknown tool, wrong arguments, or a model that failed.
            CancelledError: the run was cancelled.
        """
        self.payer.check_running()
        index, started = len(self.calls), time.perf_counter()
        self._now = _CurrentCall()
        forced = self._overrides.get(index, _NO_OVERRIDE)
        error, result, unknown = None, None, ""
        try:
            if forced is not _NO_OVERRIDE:
                result = forced
            elif kwargs:
                result = self.nested(name, args, kwargs)
            else:
                result = self._ahead.result(self, name, args, line)
            return result
        except ViperError as failure:
            error, unknown = failure.problem, getattr(failure, "phrase", "")
            raise
        except MODEL_ERRORS as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise ToolError(f"{name}: {error}") from failure
        finally:
            now = self._now
            for threshold, score in now.missed.items():
                self.missed[threshold] = max(score, self.missed.get(threshold, score))
            self.calls.append(
                ToolCall(
                    index=index,
                    tool=name,
                    args=tuple(logged(value) for value in args),
                    kwargs={key: logged(value) for key, value in kwargs.items()},
                    result=plain(now.shown_picture or result),
                    seconds=round(time.perf_counter() - started, 6),
                    cached=error is None and now.from_cache and not now.computed,
                    rejected_by=now.rejected_by,
                    shortened_by=now.shortened_by,
                    judged_by=now.judged_by,
                    scores=now.scores,
                    error=error,
                    line=line,
                    taught=tuple(now.soft_prompts),
                    note=now.note,
                    unknown=unknown,
                )
            )

    def check_running(self) -> None:
        """Raise the error that ends the run, if it was cancelled or its time is over."""
        self.payer.check_running()

    # The methods below are for the tools.

    def nested(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the answer of another tool, as part of the current call.

        Raises:
            ToolError: unknown tool, or the tool refused.
        """
        tool = self.toolbox.tools.get(name)
        if tool is None:
            names = ", ".join(sorted(self.toolbox.tools))
            raise ToolError(f"unknown tool {name!r}; known: {names}")
        return tool(self, *args, **kwargs)

    def threshold(self, name: str) -> float:
        """Return the current value of a threshold, or its default if the profile declares none of
        that name.

        The reader may use it in any way, so that each lower value counts as one that may change the
        call's result. To compare a score, use :meth:`passes`.
        """
        self._now.missed[name] = inf
        return self._value(name)

    def passes(self, name: str, score: float) -> bool:
        """Return whether a candidate's score reaches a threshold, and note the best that does
        not.
        """
        if score >= self._value(name):
            return True
        self._now.missed[name] = max(score, self._now.missed.get(name, score))
        return False

    def _value(self, name: str) -> float:
        return self.thresholds.get(name, DEFAULT_THRESHOLDS.get(name, 0.0))

    def record_scores(
        self, threshold_name: str, scores: Iterable[float], *, keeps_all: bool = False
    ) -> None:
        """Record the scores of the candidates that a threshold decided on, and its effect.

        If the threshold rejects all of them, it has emptied the result. With ``keeps_all`` the tool
        returns every candidate that passes. The threshold has then shortened the result if it
        rejects scores that self-tuning could still reach.
        """
        ordered, value = sorted(scores, reverse=True), self._value(threshold_name)
        self._now.judged_by = threshold_name
        self._now.scores = tuple(round(float(score), 4) for score in ordered[:SCORES_KEPT])
        if ordered and ordered[0] < value:
            self._now.rejected_by = threshold_name
        schedule = self.toolbox.settings.sensitivities.get(threshold_name)
        if keeps_all and ordered and ordered[0] >= value and schedule is not None:
            rejected = (score for score in ordered if score < value)
            if any(score >= schedule.floor for score in rejected):
                self._now.shortened_by = threshold_name

    def show(self, region: Region) -> None:
        """Show a part of a picture to the model that writes the code; the log names the picture.

        Raises:
            ToolError: the run has shown as many pictures as it may.
        """
        if sum(map(is_shown, self.calls)) >= self.max_shown:
            raise ToolError(f"{self.max_shown} pictures were shown; no more are, so answer now")
        x0, y0, x1, y1 = region.box
        name, size = region.image_id, (x1 - x0, y1 - y0)
        is_large = size[0] * size[1] > self.max_shown_pixels
        if is_large or not region.is_whole:
            picture = self.media.pixels(name)[y0:y1, x0:x1]
            if is_large:
                picture = np.asarray(Picture(picture).fitted(self.max_shown_pixels))
            name = self.media.add_edit(picture, name, x0, y0)
            size = (picture.shape[1], picture.shape[0])
        self._now.shown_picture = Ref("image", (name, *size))

    def without_model(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """Return a value computed from pixels alone, cached under a key that holds all it depends
        on; it counts as no forward pass.
        """
        value, hit = self.toolbox.results.get(key, compute)
        self._now.from_cache |= hit
        return value

    def note_soft_prompt(self, name: str) -> None:
        """Record that a learned soft prompt takes part in the current call."""
        self._now.soft_prompts[name] = None

    def note_left_out(self, note: str) -> None:
        """Record what the result of the current call leaves out of a model's reply."""
        self._now.note = note or self._now.note

    def region(self, ref: Any) -> Region:
        """Return the pixel region of a patch or image reference, clipped to its picture."""
        if not isinstance(ref, Ref) or ref.kind not in ("patch", "image"):
            raise ToolError(f"expected an image patch, got {describe(ref)}")
        image_id = str(ref.fields[0])
        try:
            picture = self.media.pixels(image_id)
        except KeyError:
            raise ToolError(f"there is no picture {image_id!r} in this query") from None
        height, width = picture.shape[:2]
        if ref.kind == "image":
            return Region(image_id, (0, 0, width, height), (width, height))
        x0, y0, x1, y1 = Box(*map(float, ref.fields[1:5])).to_pixels(height)
        left, top = floor(min(max(x0, 0), width)), floor(min(max(y0, 0), height))
        right, bottom = ceil(min(max(x1, 0), width)), ceil(min(max(y1, 0), height))
        return Region(image_id, (left, top, right, bottom), (width, height))

    def segment(self, ref: Any) -> tuple[str, int, int]:
        """Return the video of a segment or video reference, and its frames ``[start, end)``."""
        if not isinstance(ref, Ref) or ref.kind not in ("segment", "video"):
            raise ToolError(f"expected a video segment, got {describe(ref)}")
        if self.media.video is None:
            raise ToolError("this query has no video")
        name = str(ref.fields[0])
        try:
            count = len(self.media.frames(name))
        except KeyError:
            raise ToolError(f"there is no video {name!r} in this query") from None
        if ref.kind == "video":
            return name, 0, count
        start, end = int(ref.fields[1]), int(ref.fields[2])
        return name, max(0, min(start, count)), max(0, min(end, count))

    def patch_ref(self, image_id: str, box: PixelBox, outline: str = "", label: str = "") -> Ref:
        """Return the reference of a pixel box for a program, with outline and label if they
        exist.
        """
        height = self.media.pixels(image_id).shape[0]
        corners = Box.from_pixels([round(float(value), 2) for value in box], height)
        extra = (outline, label) if outline or label else ()
        sides = (corners.left, corners.lower, corners.right, corners.upper)
        return Ref("patch", (image_id, *sides, *extra))

    def encoded(
        self, role: str, place: tuple[str, Any], operation: str, make: Callable[[], Any]
    ) -> Any:
        """Return the encoding of a picture, a part of it, or the video, from the cache if possible.

        Args:
            role: whose encoding.
            place: media id and box; the box is None for the whole.
            operation: of the role's backend, see ``viper.tools.toolbox.OPERATIONS``.
            make: returns the pixels; called only if the encoding is not cached.
        """
        about = (self.media.content_hash(place[0]), place[1])
        return self._cached("encode", role, about, operation, lambda: (make(),))

    def computed(
        self, role: str, key: tuple[Any, ...], operation: str, *args: Any, **named: Any
    ) -> Any:
        """Return the result of a model call, cached under a key that holds all it depends on."""
        return self._cached("answer", role, key, operation, lambda: args, **named)

    def computed_late(
        self, role: str, key: tuple[Any, ...], operation: str, arguments: Arguments
    ) -> Any:
        """Work like :meth:`computed`, but make the arguments only if the result is not cached."""
        return self._cached("answer", role, key, operation, arguments)

    def _cached(
        self, kind: str, role: str, about: Any, operation: str, arguments: Arguments, **named: Any
    ) -> Any:
        """Ask the toolbox unless the cache knows the answer, and count which of both it was."""
        cache = self.toolbox.encodings if kind == "encode" else self.toolbox.results
        model_id = self.toolbox.models.trait(role, "model_id")

        def ask() -> Any:
            self.payer.check_running()  # one call of a program may ask a model many times
            if self.toolbox.models.trait(role, "asks_language_model", False):
                self.payer.check_budget()
            return self.toolbox.ask(role, operation, *arguments(), payer=self.payer, **named)

        value, hit = cache.get((f"{kind}:{role}", model_id, *about), ask)
        if hit:
            self._now.from_cache = True
        else:
            self._now.computed = True
            self.model_calls += 1
        return value


def is_shown(call: ToolCall) -> bool:
    """Return whether a logged call put a picture before a model."""
    return call.tool == SHOW and call.error is None


def note_of(call: ToolCall) -> str:
    """Return the note of a logged call that shows a picture."""
    notes = [*call.args[1:], *call.kwargs.values()]
    return next((note for note in notes if isinstance(note, str)), "")


def media_arguments(media: Media) -> dict[str, Any]:
    """Return the arguments of a program's entry point, and the picture names of line programs.

    Entry points take ``video``, or ``image`` and ``image_list``. Line programs know the first
    picture as ``IMAGE``. Several pictures are also ``IMAGE1``, ``IMAGE2`` and so on, and two
    pictures are also ``LEFT`` and ``RIGHT``.
    """
    if media.video is not None:
        count, height, width = media.video.shape[:3]
        return {"video": Ref("video", ("video0", count, width, height))}
    pictures = [
        Ref("image", (f"image{number}", picture.shape[1], picture.shape[0]))
        for number, picture in enumerate(media.images)
    ]
    named = {"image": pictures[0], "image_list": pictures, "IMAGE": pictures[0]}
    if len(pictures) > 1:
        named |= {f"IMAGE{number}": picture for number, picture in enumerate(pictures, 1)}
    if len(pictures) == 2:
        named |= {"LEFT": pictures[0], "RIGHT": pictures[1]}
    return named
