"""Which of the events seen in a clip bear on a question; no model involved."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viper.models.vision.roles import EventWindow


@dataclass(frozen=True)
class SeenEvent:
    """One sentence of a description bank that fits a clip.

    ``actor`` and ``target`` are names without article; ``target`` is empty where
    the kind of event has none.
    """

    text: str
    kind: str
    actor: str
    target: str
    window: EventWindow

    @property
    def middle(self) -> float:
        """The moment of the event, in frames."""
        return (self.window.start + self.window.end) / 2


def bearing_on(
    question: str, events: Sequence[SeenEvent], names: Sequence[str], templates: Mapping[str, str]
) -> list[SeenEvent]:
    """The events that a question asks about, in the order given; all of them if it does not say.

    ``what does the red cube do?`` keeps what it does, ``what does the red cube
    hit?`` its hits, ``what hits the red cube?`` and ``what happens to the red
    cube?`` what is done to it, ``what stops?`` every stop. Where nothing fits that
    closely, what the named objects are part of at all is kept.

    Args:
        question: free text.
        events: what was seen.
        names: all object names there are.
        templates: kind -> its sentence with ``{a}`` for who acts and ``{b}`` for the other.
    """
    asked = " ".join(re.findall(r"[a-z]+", question.lower()))
    kind, place = _verb_in(asked, templates)
    suffered = re.search(r"\bhappens? to\b", asked)
    split = place if kind else suffered.start() if suffered else len(asked)
    before, after = mentioned(asked[:split], names), mentioned(asked[split:], names)
    fitting = [
        event
        for event in events
        if kind in ("", event.kind)
        and (not before or event.actor in before)
        and (not after or event.target in after or (not kind and event.actor in after))
    ]
    named = before | after
    return fitting or [e for e in events if not named or {e.actor, e.target} & named]


def _verb_in(asked: str, templates: Mapping[str, str]) -> tuple[str, int]:
    """The first kind of event whose verb the question has, and where; ("", 0) if none."""
    found = []
    for kind, template in templates.items():
        verb = re.sub(r"\{[ab]\}", "", template).strip()
        first, _, rest = verb.partition(" ")
        tail = f" {rest}" if rest else ""
        match = re.search(rf"\b{re.escape(first.removesuffix('s'))}s?{re.escape(tail)}\b", asked)
        if match:
            found.append((match.start(), kind))
    place, kind = min(found, default=(0, ""))
    return kind, place


def mentioned(text: str, names: Sequence[str]) -> set[str]:
    """The names a text mentions in full, else those that a single word of it fits."""
    words = re.findall(r"[a-z]+", text.lower())
    line = f" {' '.join(words)} "
    full = {name for name in names if f" {name} " in line}
    return full or {name for name in names if set(name.split()) & set(words)}
