"""Family 3, multiple choice about a clip: the order of events, and their actors."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from viper_lab.world.events import EVENT_KINDS, VERBS, say
from viper_lab.world.queries.meaning import SHARES, Meaning
from viper_lab.world.queries.wording import read_templates

TEMPLATES, CLIP_TEMPLATES = read_templates("temporal"), read_templates("vague_clips")

WEIGHTS = SHARES["video"]

# Event kinds of ``which`` queries: those with one object.
WHICH_KINDS = ("start", "stop", "appear", "fall")

DO_TYPES = frozenset({"do_after", "do_before", "do_first", "do_last"})
HAPPENS_TYPES = frozenset({"happens_first", "happens_last", "happens_after", "happens_before"})


def event(kind: str, actor: str, target: str | None = None) -> Meaning:
    """Return one event as a slot of other meanings; names without article (``red cube``)."""
    slots = {"kind": kind, "actor": actor}
    return Meaning("event", slots if target is None else {**slots, "target": target})


def event_sentence(meaning: Meaning) -> str:
    """Return ``the red cube hits the blue ball``."""
    return say(meaning["kind"], meaning["actor"], meaning.slots.get("target"))  # type: ignore[arg-type]


def event_predicate(meaning: Meaning) -> str:
    """Return the actor's action, ``hits the blue ball``."""
    return event_sentence(meaning).removeprefix(f"the {meaning['actor']} ")


def option_text(type_: str, happened: Meaning) -> str:
    """Return the text of an event as an option of a query of that type."""
    if type_ in DO_TYPES:
        return event_predicate(happened)
    if type_ in HAPPENS_TYPES:
        return event_sentence(happened)
    return f"the {happened['target' if type_ == 'what_hit' else 'actor']}"


def say_temporal(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """Return template name and text of a question about a clip."""
    key = meaning.slots.get("vague", meaning.type)
    name, text = {**TEMPLATES, **CLIP_TEMPLATES}[str(key)].pick(random, split)
    words: dict[str, str] = {}
    if "actor" in meaning:
        words["x"] = f"the {meaning['actor']}"
    if "kind" in meaning:
        words["v"] = VERBS[meaning["kind"]]
    if "event" in meaning:
        happened: Meaning = meaning["event"]
        words["f"] = words["e"] = event_sentence(happened)
        if "actor" in meaning and happened["actor"] == meaning["actor"] and random.random() < 0.5:
            words["e"] = f"it {event_predicate(happened)}"
    return f"{key}:{name}", text.format(**words)


def draw_temporal(type_: str, names: Sequence[str], random: Random) -> Meaning:
    """Draw a meaning of a type about objects with these names, true of no particular clip."""
    slots: dict[str, str | int | Meaning] = {}
    if type_ in DO_TYPES or type_ in ("what_hit", "who_hits"):
        slots["actor"] = names[0]
    if type_.startswith("which"):
        slots["kind"] = random.choice(WHICH_KINDS)
    if type_.endswith(("_after", "_before")):
        slots["event"] = draw_event(names if random.random() < 0.4 else names[1:], random)
    return Meaning(type_, slots)


def draw_event(names: Sequence[str], random: Random) -> Meaning:
    """Draw an event of the first of these objects, the second its target if it takes one."""
    kind = random.choice(EVENT_KINDS)
    return event(kind, names[0], names[1] if kind == "hit" else None)
