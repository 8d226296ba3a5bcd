"""Where a program's calls meet the models.

:class:`Toolbox` is shared by all runs: it owns the models, the encodings of image
towers and the results, all cached by content, so that no tower runs twice for one
(image, box) and a lowered threshold costs no forward pass. :class:`ToolSession`
serves one run: its media, its thresholds, its log of calls.

An operation asks a role's backend for many items at once: an item is the tuple of arguments of one
request, and results come in the order of the items.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from viper.api.registry import Routine
from viper.errors import UsageError
from viper.models.batching import Gatherer
from viper.models.media import Media
from viper.models.vision.roles import (
    DepthEstimator,
    Detection,
    Detector,
    Explainer,
    Matcher,
    VisualAnswerer,
)
from viper.models.vision.soft_prompts import NoSoftPrompts, SoftPromptSource
from viper.storage.cache import ComputeCache
from viper.tools.knowledge_tools import KNOWLEDGE_TOOLS
from viper.tools.models import ModelSet
from viper.tools.parent_routines import as_tool
from viper.tools.picture_tools import PICTURE_TOOLS
from viper.tools.session import ToolSession
from viper.tools.settings import ToolSettings
from viper.tools.tool_functions import TOOL_FUNCTIONS


@dataclass(frozen=True)
class Operation:
    """One operation; ``together`` tells whether its items gain from being served at once."""

    run: Callable[[Any, Sequence[tuple[Any, ...]]], Sequence[Any]]
    together: bool = True


def _detect(model: Detector, items: Sequence[tuple[Any, ...]]) -> list[list[Detection]]:
    """Phrases asked of one picture go together; every phrase is asked once."""
    asked: dict[int, tuple[Any, dict[str, None]]] = {}
    for encoding, phrase in items:
        asked.setdefault(id(encoding), (encoding, {}))[1][phrase] = None
    found: dict[tuple[int, str], list[Detection]] = {}
    for key, (encoding, phrases) in asked.items():
        for phrase, boxes in zip(phrases, model.detect(encoding, list(phrases)), strict=True):
            found[key, phrase] = boxes
    return [found[id(encoding), phrase] for encoding, phrase in items]


def _answer(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    encodings, questions = zip(*items, strict=True)
    return [text for text, _ in model.answer(list(encodings), list(questions))]


def _explain(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    if not isinstance(model, Explainer):
        return _answer(model, items)
    encodings, questions = zip(*items, strict=True)
    return model.explain(list(encodings), list(questions))


def _firsts(items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [first for (first,) in items]


def _encode(model: Any, items: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
    found: Sequence[Any] = model.encode(_firsts(items))
    return found


def _caption(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    return model.caption(_firsts(items))


def _images(model: Matcher, items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return list(model.encode_images(_firsts(items)))


def _texts(model: Matcher, items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return list(model.encode_texts(_firsts(items)))


def _depth(model: DepthEstimator, items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return model.depth(_firsts(items))


def _one_by_one(method: str) -> Operation:
    def run(model: Any, items: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(model, method)(*item) for item in items]

    return Operation(run, together=False)


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("detector", "encode"): Operation(_encode),
    ("detector", "detect"): Operation(_detect),
    ("matcher", "encode_images"): Operation(_images),
    ("matcher", "encode_texts"): Operation(_texts),
    ("depth", "depth"): Operation(_depth),
    ("vqa", "encode"): Operation(_encode),
    ("vqa", "answer"): Operation(_answer),
    ("vqa", "explain"): Operation(_explain),
    ("vqa", "caption"): Operation(_caption),
    ("video", "encode"): _one_by_one("encode"),
    ("video", "locate"): _one_by_one("locate"),
    ("video", "describe"): _one_by_one("describe"),
}
"""By role and name. Roles that are not listed, as ``text``, are served request by request."""


ALL_TOOLS: Mapping[str, Callable[..., Any]] = {
    **TOOL_FUNCTIONS,
    **PICTURE_TOOLS,
    **KNOWLEDGE_TOOLS,
}
"""The function of every tool of the package by name."""


class Toolbox:
    """The models with their caches, for any number of runs at once.

    Args:
        routines: further tools by name, which a user's file registered to run in the parent.
        soft_prompts: what the tools were taught; nothing by default.
        tools: the function of each tool by name; it takes the session and the arguments.

    Raises:
        UsageError: one of them has the name of a tool that is there already.
    """

    def __init__(
        self,
        models: ModelSet,
        settings: ToolSettings,
        routines: Mapping[str, Routine] | None = None,
        soft_prompts: SoftPromptSource | None = None,
        tools: Mapping[str, Callable[..., Any]] = ALL_TOOLS,
    ) -> None:
        self.models = models
        self.settings = settings
        self.routines = dict(routines or {})
        added = {name: as_tool(routine) for name, routine in self.routines.items()}
        taken = sorted(set(added) & set(tools))
        if taken:
            raise UsageError(f"the routine name {taken[0]!r} is taken; choose another name")
        self.tools: Mapping[str, Callable[..., Any]] = {**tools, **added}
        self.soft_prompts: SoftPromptSource = soft_prompts or NoSoftPrompts()
        self.encodings = ComputeCache(settings.cache_entries, settings.cache_mb << 20)
        self.results = ComputeCache(settings.cache_entries, settings.cache_mb << 20)
        self._numbers = itertools.count(1)
        self._gatherers = self._own_gatherers()

    def with_settings(self, settings: ToolSettings) -> Toolbox:
        """A toolbox over the same models and caches, with other sensitivities."""
        other = copy.copy(self)
        other.settings = settings
        return other

    def with_soft_prompts(self, source: SoftPromptSource) -> Toolbox:
        """A toolbox over the same models and caches, whose tools know what the source teaches."""
        other = copy.copy(self)
        other.soft_prompts = source
        return other

    def with_roles(self, loaders: Mapping[str, Callable[[], Any]]) -> Toolbox:
        """A toolbox over the same models and caches, with other backends in some roles."""
        other = copy.copy(self)
        other.models = self.models.with_roles(loaders)
        other._gatherers = other._own_gatherers()
        return other

    def with_caches(self, entries: int, mb: int) -> Toolbox:
        """A toolbox over the same models, with caches of its own that hold so much each."""
        other = copy.copy(self)
        other.encodings = ComputeCache(entries, mb << 20)
        other.results = ComputeCache(entries, mb << 20)
        return other

    def ask(self, role: str, operation: str, *args: Any, **named: Any) -> Any:
        """What a role's backend answers, served together with what other runs ask meanwhile.

        Operations listed in :data:`OPERATIONS` take no arguments by name.

        Raises:
            ToolError: no model plays the role.
            ModelError: the model cannot be loaded, or ran out of memory.
        """
        known = OPERATIONS.get((role, operation))
        if known is not None:
            # Those that gain nothing from company are each of a kind of their own.
            company = 0 if known.together else next(self._numbers)
            return self._gatherers[role].ask((operation, company), args)
        if self.models.trait(role, "concurrent", False):
            return getattr(self.models.get(role), operation)(*args, **named)
        with self.models.using(role) as backend:
            return getattr(backend, operation)(*args, **named)

    def _own_gatherers(self) -> dict[str, Gatherer]:
        return {
            role: Gatherer(partial(self._serve, role), self.settings.batch)
            for role in {role for role, _ in OPERATIONS}
        }

    def _serve(self, role: str, kind: Any, items: list[tuple[Any, ...]]) -> Sequence[Any]:
        with self.models.using(role) as backend:
            return OPERATIONS[role, kind[0]].run(backend, items)

    def session(
        self,
        media: Media,
        *,
        thresholds: Mapping[str, float] | None = None,
        overrides: Mapping[int, Any] | None = None,
        cancel: threading.Event | None = None,
    ) -> ToolSession:
        """What one program run talks to.

        Args:
            media: the pictures or the video of the query.
            thresholds: values that replace the starting ones.
            overrides: call index to the result it shall have instead (re-runs with one change).
            cancel: when set, the next call ends the run with CancelledError.
        """
        values = {**self.settings.start_thresholds(), **(thresholds or {})}
        return ToolSession(self, media, values, dict(overrides or {}), cancel)
