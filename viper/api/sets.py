"""API sets: the names that a prompt lists for a task.

``vipergpt`` and ``abstract`` are the lists of Stanić et al. 2024, A.4.1 to A.4.4. ``more`` holds
what is ours, for pictures: relations, conversions, and names that the paper lists for other tasks,
such as ``simple_query`` in grounding, which "the one of the same colour as …" needs.
Differs: questions list ``simple_query`` and ``best_text_match``, because A.4.1 and A.4.2 print the
prompts of RefCOCO, whose names cannot answer in words; sec. 2.1 counts both among ViperGPT's.
``frame_from_index`` is listed for videos because A.4.3 prints its constructor alone.

A set decides only which names are *listed*; programs can call every name under every set.

:meth:`ApiSet.entries` goes through all methods and routines in their order and makes an
:class:`ApiEntry` of each that the set lists for the task; :mod:`viper.api.spec` renders entries.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

# The order of these imports is the order of names in prompts.
# isort: off
import viper.api.routines.pixels
import viper.api.routines.knowledge
import viper.api.routines.pixel_measures
import viper.api.routines.documents
import viper.api.routines.spatial
import viper.api.routines.text
import viper.api.routines.alike
import viper.api.routines.tracks
import viper.api.routines.visprog  # noqa: F401  (registers)

# isort: on
from viper.api import registry
from viper.api.image_patch import ImagePatch
from viper.api.video_segment import VideoSegment
from viper.errors import UnknownNameError, UsageError
from viper.schema import TASKS

OWNERS: tuple[type, ...] = (ImagePatch, VideoSegment)

# Prompts of videos list the names of their own paper's section alone, see ``_layers``.
VIDEO_TASKS = frozenset({"choice"})

# If a name of a tool set is both a method and a function, the method is listed.
_OWNER_OF_NAMED: Mapping[str, str] = {
    name: ImagePatch.__name__ for name, *_ in registry.listed_methods(ImagePatch)
}

# APIs whose programs are lines ``NAME=MODULE(argument=value,…)``, without an entry point.
LINE_APIS = frozenset({"visprog"})

_CROPS = {"crop_left_of_bbox", "crop_right_of_bbox", "crop_below_bbox", "crop_above_bbox"}
_EVERYWHERE = frozenset(
    _CROPS | {"crop", "find", "exists", "simple_query", "caption", "verify_property"}
)

# Names whose worked example the paper prints too, in A.4.1 to A.4.4. Those of the other names are
# solved queries like any others.
PRINTED_EXAMPLES = frozenset({
    "find", "exists", "verify_property", "best_text_match", "simple_query", "compute_depth",
    "overlaps_with", "distance", "sort_patches_left_to_right", "sort_patches_bottom_to_top",
    "sort_patches_front_to_back", "get_middle_patch", "get_patch_closest_to_anchor_object", "trim",
    "select_answer",
})  # fmt: skip

# API sets of DWIM's tasks: set to its listed names, which are methods of ``ImagePatch`` and
# functions, independent of the task. Users choose them where an API is named (``--api dwim-gd``).
# Their names are the abbreviations of the source, of which only the supplement was available.
#
# Source: DWIM (2025), supplement, table 9, and prompt 15.2 for the methods behind its rows. Ours:
# ``crop`` in addition to the four crops at a box; "Boolean to Yes/No" is ``bool_to_yesno``.
TOOL_SETS: Mapping[str, frozenset[str]] = {
    "dwim-vcr": _EVERYWHERE | {"bool_to_yesno", "best_description_from_options"},
    "dwim-ekvqa": _EVERYWHERE | {"complex_query", "llm_query"},
    "dwim-vlcu": _EVERYWHERE | {"bool_to_yesno"},
    "dwim-vasa": _EVERYWHERE | {"complex_query", "bool_to_yesno"},
    "dwim-gd": _EVERYWHERE | {"best_description_from_options"},
    "dwim-ccq": _EVERYWHERE,
}


@dataclass(frozen=True)
class ApiEntry:
    """One name as prompts list it.

    Attributes:
        owner: ``ImagePatch``, ``VideoSegment`` or None for a function.
        returns: the return annotation.
        summary: words of the compact text: declared with the name, or the first docstring line
            with a lower-case first letter and no final period.
        docstring: the docstring without its example.
        example: the worked example (dedented source), or "".
        needs: the role of the model that it asks, or "".
        brief: listed as one line even if the other names are listed in full.
    """

    name: str
    owner: str | None
    parameters: tuple[registry.Parameter, ...]
    returns: str
    summary: str
    docstring: str
    example: str
    needs: str = ""
    brief: bool = False

    @property
    def arguments(self) -> str:
        """Return the arguments for the compact text, such as ``a, b``."""
        return ", ".join(p.name for p in self.parameters if not p.hidden)


@dataclass(frozen=True)
class ApiSet:
    """One API, or several joined by ``+``; ``parts`` keeps the order of the name.

    ``own`` holds the routines of the parts that are files of the user.
    """

    name: str
    parts: tuple[str, ...]
    own: Mapping[str, tuple[registry.Routine, ...]] = field(default_factory=dict)

    @property
    def lines(self) -> bool:
        """Return whether its programs are line programs; sets joined with others have none."""
        shipped = {part for part in self.parts if part not in self.own}
        return bool(shipped) and shipped <= LINE_APIS

    def entries(self, task: str) -> tuple[ApiEntry, ...]:
        """Return the names listed for a task: methods first, then functions, in source order.

        Raises:
            UnknownNameError: the task is not in the schema.
            UsageError: the task is ``auto``, which must be resolved first.
        """
        if task not in TASKS:
            raise UnknownNameError("task", task, TASKS)
        if task == "auto":
            raise UsageError("task 'auto' has no API of its own; resolve the task first")
        layers = {layer for part in self.parts for layer in _layers(part, task)}
        named = set().union(*(TOOL_SETS.get(part, ()) for part in self.parts))
        shipped = (
            _entry(name, owner, function, visibility)
            for name, owner, function, visibility in _everything()
            if visibility.lists(layers, task)
            or (name in named and owner == _OWNER_OF_NAMED.get(name))
        )
        own = (routine for routines in self.own.values() for routine in routines)
        return (*shipped, *(entry_of(each) for each in own if task in each.visibility.tasks))


def split_api(name: str) -> tuple[str, ...]:
    """Return the parts of an API name."""
    return tuple(part.strip() for part in name.split("+"))


def api_set(name: str, own: Mapping[str, tuple[registry.Routine, ...]] | None = None) -> ApiSet:
    """Return the set called ``vipergpt``, ``abstract``, … or several joined by ``+``.

    Args:
        own: routines of the files that parts of the name may stand for.

    Raises:
        UnknownNameError: a part is unknown; the message lists the known ones.
    """
    parts, files = split_api(name), own or {}
    choices = api_names() | set(files)
    for part in parts:
        if part not in choices:
            raise UnknownNameError("API", part, choices)
    return ApiSet("+".join(parts), parts, {part: files[part] for part in parts if part in files})


def api_names() -> set[str]:
    """Return the names that :func:`api_set` knows."""
    methods = {
        api for owner in OWNERS for *_, v in registry.listed_methods(owner) for api in v.apis
    }
    return methods | registry.REGISTRY.apis() | set(TOOL_SETS)


def _layers(part: str, task: str) -> tuple[str, ...]:
    """Return the APIs of a part: ``look`` includes the abstract API with ``more``, and that one
    ViperGPT's on images, but not on videos.
    """
    if part == "look":
        return (*_layers("abstract", task), registry.MORE, "look")
    if part == "abstract" and task not in VIDEO_TASKS:
        return ("vipergpt", "abstract")
    return (part,)


def _everything() -> Iterator[tuple[str, str | None, Callable[..., Any], registry.Visibility]]:
    for owner in OWNERS:
        for name, function, visibility in registry.listed_methods(owner):
            yield name, owner.__name__, function, visibility
    for routine in registry.REGISTRY.all():
        yield routine.name, None, routine.function, routine.visibility


def entry_of(routine: registry.Routine) -> ApiEntry:
    """Return the entry with which prompts list a routine."""
    return _entry(routine.name, None, routine.function, routine.visibility)


@lru_cache(maxsize=512)
def _entry(
    name: str, owner: str | None, function: Callable[..., Any], visibility: registry.Visibility
) -> ApiEntry:
    parameters, returns = registry.signature_of(function, visibility.hide)
    docstring, example = split_example(inspect.getdoc(function) or "")
    summary = visibility.summary or summary_of(docstring)
    return ApiEntry(name, owner, parameters, returns, summary, docstring, example, visibility.needs)


def summary_of(docstring: str) -> str:
    """Return the first line with a lower-case first letter and no final period."""
    first = docstring.strip().partition("\n")[0].strip().rstrip(".")
    return first[:1].lower() + first[1:]


def split_example(docstring: str) -> tuple[str, str]:
    """Return a docstring without its ``Example:`` section, and that section dedented."""
    before, heading, after = docstring.partition("\nExample:\n")
    return before.strip(), textwrap.dedent(after).strip() if heading else ""
