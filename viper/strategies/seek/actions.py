"""What each action does with the tools, and what it found, in lines.

Objects are listed by detection and described by captions; one of them may be turned to, and then
all looking is at it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from viper.sandbox import Ref
from viper.strategies.seek.memory import MemoryState
from viper.tools.session import ToolSession

MAX_OBJECTS = 8
"""Objects that are listed, the surest first."""

MAX_PASSAGES = 6
"""Of a text search that are looked at, the best first."""

OBJECT = "object"
"""What the detector is asked for."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Observation:
    """What an action found.

    Attributes:
        lines: one finding each; none: it found nothing.
        focus: the object that is looked at from now on; None: as before.
        objects: those that were listed, with their descriptions; None: as before.
        is_plain: it is of use as it stands, and nobody need judge it.
    """

    lines: tuple[str, ...]
    focus: Any = None
    objects: tuple[tuple[Any, str], ...] | None = None
    is_plain: bool = False


@dataclass(frozen=True)
class Scene:
    """What actions work on: the tools of a run and the picture.

    Attributes:
        ask: a short question, and what is known; the language model's answer.
    """

    session: ToolSession
    picture: Ref
    ask: Callable[[str, tuple[str, ...]], str]

    def call(self, tool: str, *args: Any) -> Any:
        """One call of a tool; stands in the trace.

        Raises:
            ViperError: the tool refused or failed.
        """
        return self.session.call(tool, args, {}, None)


def carry_out(action: str, words: str, now: MemoryState, scene: Scene) -> Observation:
    """What an action found.

    Args:
        words: what the planner wrote beside it; where it wrote none, the query stands in.

    Raises:
        ViperError: a tool refused or failed.
    """
    return _DOING[action](words, now, scene)


def is_possible(action: str, now: MemoryState) -> bool:
    """Whether there is anything to do it with."""
    return action != "select" or any(key not in now.excluded for key in _selections(now))


def excluded(now: MemoryState) -> set[str]:
    """The actions that are over and done with at a state.

    Turning to an object is so only when every object was tried.
    """
    done = {action for action, _ in now.excluded}
    return (done - {"select"}) | (set() if is_possible("select", now) else {"select"})


def settled(action: str, words: str, now: MemoryState) -> str:
    """The words as they are carried out: for ``select`` the number of the object that is meant.

    An object that was tried already is not meant again.
    """
    if action != "select":
        return words
    left = [
        (number, label)
        for number, (_, label) in enumerate(now.objects, 1)
        if ("select", str(number)) not in now.excluded
    ]
    named = re.match(r"\D{0,8}(\d+)\b", words)
    numbers = [str(number) for number, _ in left]
    if named and named[1] in numbers:
        return named[1]
    wanted = _words(words) or _words(now.query)
    if not left:
        return ""
    # Of equally fitting ones the surest, which is the first.
    return str(max(left, key=lambda one: (len(wanted & _words(one[1])), -one[0]))[0])


def _selections(now: MemoryState) -> list[tuple[str, str]]:
    return [("select", str(number)) for number in range(1, len(now.objects) + 1)]


def _words(text: str) -> set[str]:
    return {one.lower() for one in _WORD.findall(text)}


def _looked_at(now: MemoryState, scene: Scene) -> Any:
    return scene.picture if now.focus is None else now.focus


def _caption(words: str, now: MemoryState, scene: Scene) -> Observation:
    return _lines([scene.call("caption_image", _looked_at(now, scene))])


def _vqa(words: str, now: MemoryState, scene: Scene) -> Observation:
    return _lines([scene.call("simple_query", _looked_at(now, scene), words or now.query)])


def _detect(words: str, now: MemoryState, scene: Scene) -> Observation:
    found = scene.call("find", scene.picture, OBJECT)[:MAX_OBJECTS]
    objects = tuple((one, str(scene.call("caption_image", one))) for one in found)
    lines = [f"object {number}: {label}" for number, (_, label) in enumerate(objects, 1)]
    return Observation(tuple(lines), objects=objects, is_plain=True)


def _select(words: str, now: MemoryState, scene: Scene) -> Observation:
    number = int(words)
    focus, label = now.objects[number - 1]
    return Observation((f"looking at object {number}: {label}",), focus=focus, is_plain=True)


def _ocr(words: str, now: MemoryState, scene: Scene) -> Observation:
    return _lines(str(scene.call("ocr", _looked_at(now, scene))).splitlines())


def _image_search(about: str) -> Callable[[str, MemoryState, Scene], Observation]:
    def search(words: str, now: MemoryState, scene: Scene) -> Observation:
        return _lines(scene.call("image_search", _looked_at(now, scene), about))

    return search


def _text_search(words: str, now: MemoryState, scene: Scene) -> Observation:
    return _lines(scene.call("text_search", words or now.query)[:MAX_PASSAGES])


def _llm_qa(words: str, now: MemoryState, scene: Scene) -> Observation:
    return _lines([scene.ask(words or now.query, now.context)])


def _lines(found: list[Any]) -> Observation:
    return Observation(tuple(text for one in found if (text := str(one).strip())))


_DOING: Mapping[str, Callable[[str, MemoryState, Scene], Observation]] = {
    "caption": _caption,
    "vqa": _vqa,
    "detect": _detect,
    "select": _select,
    "ocr": _ocr,
    "entities": _image_search("entities"),
    "captions": _image_search("captions"),
    "identical": _image_search("identical"),
    "titles": _image_search("titles"),
    "text_search": _text_search,
    "llm_qa": _llm_qa,
}
