"""The toolbox: models, caches and tools behind the calls of programs.

A call of a program passes five layers on its way to a model, each with one task:

1. ``ToolSession.computed`` or ``encoded`` looks in the caches and counts what the run needed.
2. :meth:`Toolbox.ask` prepares pictures and decides whether the request may share a batch.
3. ``Gatherer.ask`` lets the requests of other runs for the same operation join.
4. ``ModelSet.run`` waits for the turn of the role's backend.
5. ``MemoryBudget.run`` keeps the backend loaded, and frees memory if it runs out.

All runs share one :class:`Toolbox`. It owns the models and caches the encodings of image towers and
the results by content. No tower runs twice for one (image, box), and a lowered threshold costs no
forward pass. A :class:`ToolSession` serves one run: its media, its thresholds, its call log.

An operation asks a role's backend for many items at once. An item is the tuple of arguments of one
request. Results have the order of the items.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from viper.api.registry import REGISTRY, Routine
from viper.errors import UsageError, ViperError
from viper.models.batching import Gatherer
from viper.models.llm.protocol import NO_PAYER, Payer, charging
from viper.models.media import Media
from viper.models.vision.roles import Detection, Detector, Explainer, VisualAnswerer
from viper.models.vision.soft_prompts import NoSoftPrompts, SoftPromptSource
from viper.schema import ToolCall
from viper.storage.cache import ComputeCache
from viper.tools.call_log import from_plain
from viper.tools.knowledge_tools import KNOWLEDGE_TOOLS
from viper.tools.models import ModelSet
from viper.tools.parent_routines import as_tool
from viper.tools.picture_tools import PICTURE_TOOLS
from viper.tools.session import MODEL_ERRORS, ToolSession
from viper.tools.settings import ToolSettings
from viper.tools.tool_functions import TOOL_FUNCTIONS
from viper.tools.video_tools import VIDEO_TOOLS


@dataclass(frozen=True)
class Operation:
    """Operation of a backend; ``together`` is True if its items gain from one shared call."""

    run: Callable[[Any, Sequence[tuple[Any, ...]]], Sequence[Any]]
    together: bool = True


def _detect(model: Detector, items: Sequence[tuple[Any, ...]]) -> list[list[list[Detection]]]:
    """Run the detector once per picture with all phrases for it, each phrase once.

    Args:
        items: an encoding and its phrases each.

    Returns:
        For each item, the boxes of each of its phrases.
    """
    phrases_by_picture: dict[int, tuple[Any, dict[str, None]]] = {}
    for encoding, *phrases in items:
        known = phrases_by_picture.setdefault(id(encoding), (encoding, {}))[1]
        known.update(dict.fromkeys(phrases))
    boxes_by_phrase: dict[tuple[int, str], list[Detection]] = {}
    for key, (encoding, every) in phrases_by_picture.items():
        for phrase, boxes in zip(every, model.detect(encoding, list(every)), strict=True):
            boxes_by_phrase[key, phrase] = boxes
    return [
        [boxes_by_phrase[id(encoding), phrase] for phrase in phrases]
        for encoding, *phrases in items
    ]


def _answer(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    encodings, questions = zip(*items, strict=True)
    return [text for text, _ in model.answer(list(encodings), list(questions))]


def _explain(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    if not isinstance(model, Explainer):
        return _answer(model, items)
    encodings, questions = zip(*items, strict=True)
    return model.explain(list(encodings), list(questions))


def _at_once(method: str) -> Operation:
    def run(model: Any, items: Sequence[tuple[Any, ...]]) -> list[Any]:
        return list(getattr(model, method)([first for (first,) in items]))

    return Operation(run)


def _one_by_one(method: str) -> Operation:
    def run(model: Any, items: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(model, method)(*item) for item in items]

    return Operation(run, together=False)


# Operation on prepared pictures, see :class:`~viper.models.vision.roles.PreparesPictures`.
PREPARED = "encode_prepared"

# Operations on a single picture, which the caller's thread prepares if the backend allows it.
OF_PICTURES = frozenset(
    {("detector", "encode"), ("matcher", "encode_images"), ("depth", "depth"), ("vqa", "encode")}
)

# Pictures prepared at the same time; a photograph takes half a gigabyte meanwhile.
PREPARING = 8

# Operations by role and name. Roles without an entry, such as ``text``, serve single requests.
OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("detector", "encode"): _at_once("encode"),
    ("detector", "detect"): Operation(_detect),
    ("matcher", "encode_images"): _at_once("encode_images"),
    ("matcher", "encode_texts"): _at_once("encode_texts"),
    ("matcher", "likelihood"): _one_by_one("likelihood"),
    ("depth", "depth"): _at_once("depth"),
    ("vqa", "encode"): _at_once("encode"),
    ("vqa", "answer"): Operation(_answer),
    ("vqa", "explain"): Operation(_explain),
    ("vqa", "caption"): _at_once("caption"),
    ("video", "encode"): _one_by_one("encode"),
    ("video", "locate"): _one_by_one("locate"),
    ("video", "describe"): _one_by_one("describe"),
    **{(role, PREPARED): _at_once(PREPARED) for role, _ in OF_PICTURES},
}


# The function of every tool of the package by name.
ALL_TOOLS: Mapping[str, Callable[..., Any]] = {
    **TOOL_FUNCTIONS,
    **PICTURE_TOOLS,
    **VIDEO_TOOLS,
    **KNOWLEDGE_TOOLS,
    **{routine.name: as_tool(routine) for routine in REGISTRY.all() if routine.tool},
}


def with_pictures_of(media: Media, calls: Iterable[ToolCall]) -> Media:
    """Return media with the pictures that logged calls of routines on pixels made.

    A stored trace names its pictures only. The same call on the same pixels makes the same picture
    of the same name, so they need not be stored.
    """
    own = {routine.name for routine in REGISTRY.all() if routine.tool}
    made = [call for call in calls if call.tool in own and call.error is None]
    if not made:
        return media
    media = media.for_run()
    session = Toolbox(ModelSet({}), ToolSettings()).session(media)
    session.shared = {}
    for call in made:
        # A call on an object that a model found has the object's box, which needs no model.
        with contextlib.suppress(ViperError, *MODEL_ERRORS):
            named = {key: from_plain(value) for key, value in call.kwargs.items()}
            session.nested(call.tool, tuple(map(from_plain, call.args)), named)
    return media


class Toolbox:
    """Models, caches and tools for any number of runs at once.

    Args:
        routines: further tools by name, which a user's file registered to run in the parent.
        soft_prompts: source of the learned soft prompts; none by default.

    Attributes:
        tools: the function of each tool by name; it takes the session and the arguments.

    Raises:
        UsageError: a routine has the name of an existing tool.
    """

    session_type: type[ToolSession] = ToolSession

    def __init__(
        self,
        models: ModelSet,
        settings: ToolSettings,
        routines: Mapping[str, Routine] | None = None,
        soft_prompts: SoftPromptSource | None = None,
    ) -> None:
        self.models, self.settings = models, settings
        self.routines = dict(routines or {})
        added = {name: as_tool(routine) for name, routine in self.routines.items()}
        clashes = sorted(set(added) & set(ALL_TOOLS))
        if clashes:
            raise UsageError(f"the routine name {clashes[0]!r} is taken; choose another name")
        self.tools: Mapping[str, Callable[..., Any]] = {**ALL_TOOLS, **added}
        self.soft_prompts: SoftPromptSource = soft_prompts or NoSoftPrompts()
        self.encodings = ComputeCache(settings.cache_entries, settings.cache_mb << 20)
        self.results = ComputeCache(settings.cache_entries, settings.cache_mb << 20)
        self._numbers = itertools.count(1)
        self._preparing = threading.BoundedSemaphore(PREPARING)
        self._gatherers = self._own_gatherers()

    def _with(self, **attributes: Any) -> Toolbox:
        other = copy.copy(self)
        vars(other).update(attributes)
        return other

    def with_settings(self, settings: ToolSettings) -> Toolbox:
        """Return a toolbox over the same models and caches, with other settings."""
        return self._with(settings=settings)

    def with_soft_prompts(self, source: SoftPromptSource) -> Toolbox:
        """Return a toolbox over the same models and caches, with other soft prompts."""
        return self._with(soft_prompts=source)

    def with_tools(self, tools: Mapping[str, Callable[..., Any]]) -> Toolbox:
        """Return a toolbox over the same models and caches, with other tools."""
        return self._with(tools=tools)

    def with_roles(self, loaders: Mapping[str, Callable[[], Any]]) -> Toolbox:
        """Return a toolbox over the same models and caches, with other backends in some roles."""
        other = self._with(models=self.models.with_roles(loaders))
        other._gatherers = other._own_gatherers()
        return other

    def with_caches(self, entries: int, mb: int) -> Toolbox:
        """Return a toolbox over the same models, with new caches of the given size each."""
        encodings, results = (ComputeCache(entries, mb << 20) for _ in range(2))
        return self._with(encodings=encodings, results=results)

    def ask(
        self, role: str, operation: str, *args: Any, payer: Payer = NO_PAYER, **named: Any
    ) -> Any:
        """Return the answer of a role's backend, batched with simultaneous requests of other runs.

        Backends with the attribute ``concurrent`` are asked by every thread at once instead.
        Operations listed in :data:`OPERATIONS` take no arguments by name.

        Args:
            payer: pays for the requests to language models that the backend sends.

        Raises:
            ToolError: no model plays the role.
            ModelError: the model cannot be loaded, or ran out of memory.
        """
        batched = OPERATIONS.get((role, operation))
        if batched is None:
            with charging([payer]):
                return self.models.run(
                    role, lambda backend: getattr(backend, operation)(*args, **named)
                )
        if (role, operation) in OF_PICTURES:
            prepare = self.models.trait(role, "prepare", None)
            if prepare is not None:
                with self._preparing:
                    operation, args = PREPARED, (prepare(*args),)
        if self.models.concurrent(role):
            return self._serve(role, (operation, 0), [(args, payer)])[0]
        # Items that gain nothing from batching get a number each, so they are never grouped.
        group = 0 if batched.together else next(self._numbers)
        return self._gatherers[role].ask((operation, group), (args, payer))

    def _own_gatherers(self) -> dict[str, Gatherer]:
        return {
            role: Gatherer(partial(self._serve, role), self.settings.batch)
            for role in {role for role, _ in OPERATIONS}
        }

    def _serve(
        self, role: str, kind: Any, items: list[tuple[tuple[Any, ...], Payer]]
    ) -> Sequence[Any]:
        """Answer a batch of the gatherer."""
        arguments, payers = zip(*items, strict=True)
        operation = OPERATIONS[role, kind[0]]
        with charging(payers):
            return self.models.run(role, lambda backend: operation.run(backend, arguments))

    def session(
        self,
        media: Media,
        *,
        thresholds: Mapping[str, float] | None = None,
        overrides: Mapping[int, Any] | None = None,
        payer: Payer = NO_PAYER,
    ) -> ToolSession:
        """Return the tool session of one program run.

        Args:
            media: the pictures or the video of the query.
            thresholds: values that replace the starting ones.
            overrides: call index to the result to return instead (re-runs with one change).
            payer: pays for the requests to language models that tools send; it raises the error of
                a query that has ended, such as CancelledError.
        """
        values = {**self.settings.start_thresholds(), **(thresholds or {})}
        replaced = dict(overrides or {})
        return self.session_type(self, media, values, replaced, payer)
