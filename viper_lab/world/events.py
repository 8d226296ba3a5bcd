"""Events of a clip and their wording.

An object is named by colour and shape, which is unique within a clip. The canonical sentence of an
event is :func:`event_phrase`; :data:`TEMPLATES` has alternative wordings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from viper_lab.world.scene import ClipEvent, SceneObject

EVENT_KINDS = ("start", "stop", "hit", "appear", "fall")

_WORDS = tomllib.loads(Path(__file__).with_name("events.toml").read_text("utf-8"))

# Canonical verb of each kind; ``hit`` is followed by its target.
VERBS: Mapping[str, str] = _WORDS["verbs"]

# Wordings of each kind; the first is the canonical one.
TEMPLATES: Mapping[str, Sequence[str]] = _WORDS["templates"]


def object_name(thing: SceneObject) -> str:
    """Return the name of a clip's object, ``red cube``."""
    return f"{thing.colour} {thing.shape}"


def say(kind: str, actor: str, target: str | None = None) -> str:
    """Return the canonical sentence from names, e.g. ``the red cube hits the blue ball``."""
    return TEMPLATES[kind][0].format(a=f"the {actor}", b=f"the {target}")


def event_phrase(event: ClipEvent, objects: Sequence[SceneObject]) -> str:
    """Return the canonical sentence of an event: ``the red cube falls off the table``."""
    target = None if event.target is None else object_name(objects[event.target])
    return say(event.kind, object_name(objects[event.actor]), target)


def short_names(index: int, objects: Sequence[SceneObject]) -> list[str]:
    """Return shorter unique names of ``objects[index]``: its shape, or ``red thing``."""
    thing = objects[index]
    names = []
    if sum(other.shape == thing.shape for other in objects) == 1:
        names.append(thing.shape)
    if sum(other.colour == thing.colour for other in objects) == 1:
        names += [f"{thing.colour} thing", f"{thing.colour} object"]
    return names


def is_consequence(event: ClipEvent, events: Iterable[ClipEvent]) -> bool:
    """Return whether ``event`` is a start caused by a hit (which overlaps that hit in time)."""
    return event.kind == "start" and any(
        hit.kind == "hit" and hit.target == event.actor and hit.start <= event.start < hit.end
        for hit in events
    )


def comes_before(first: ClipEvent, second: ClipEvent) -> bool:
    """Return whether ``first`` ends before ``second`` begins, which is the visible order.

    Two events of a clip are always ordered one way or the other, except a hit and the start that it
    causes.
    """
    return first.end <= second.start
