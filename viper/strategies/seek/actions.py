"""The actions: how each uses the tools, and what the search remembers of their findings.

:func:`perform` performs an action and returns its findings as lines. Those of detection are
objects, described by captions. The search may focus on one of them; then all actions look only at
it. :class:`WorkingMemory` is a stack of states, so that going back is a pop.

Source: AVIS (Hu et al. 2023), sec. 3.1 and 3.2, listing 7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from viper.errors import CancelledError, ViperError
from viper.prompting.seeking import Split
from viper.sandbox import Ref
from viper.strategies.seek.graph import START
from viper.tools.knowledge_tools import facts_of, similar_pictures
from viper.tools.session import ToolSession

# Greatest number of listed objects, the surest; each costs a caption and a line of the prompt.
MAX_OBJECTS = 8

# Greatest number of passages of a text search, the best; small models judge them one at a time,
# with a request for each sentence.
MAX_PASSAGES = 6

# Greatest number of entities, and of lines of text, that describe a region, and of characters of
# each: nine regions cost 27 calls, and an object stays one line of the prompt, which cuts longer
# ones.
MAX_FACTS = 3
_FACT_LENGTH = 60

# Name that the detector is asked for, since nobody knows yet what the picture shows.
OBJECT = "object"

_WORD = re.compile(r"[^\W_]+")


@dataclass
class MemoryState:
    """A state of the search, with the facts known there.

    Attributes:
        state: the last informative action, or ``START``.
        query: the present question: first the visual part, then the knowledge part.
        is_visual: whether that is the visual part.
        context: findings so far, one per line.
        focus: the object to look at; None means the whole picture.
        objects: objects listed by detection, with their descriptions.
        excluded: actions that were performed here and were uninformative or led to no answer;
            ``select`` with the number of the object.
        led_here: the action that led here from the state below, in the form of ``excluded``.
        searches: searches made on the way here or at this state, with the question of each.
        is_settled: whether the visual part is answered here. The search does not go back beyond
            it, because it would then end with a fact about another object.
    """

    state: str = START
    query: str = ""
    is_visual: bool = True
    context: tuple[str, ...] = ()
    focus: Any = None
    objects: tuple[tuple[Any, str], ...] = ()
    excluded: dict[tuple[str, str], None] = field(default_factory=dict)
    led_here: tuple[str, str] | None = None
    searches: set[tuple[str, ...]] = field(default_factory=set)
    is_settled: bool = False

    def settle(self, split: Split, visual_answer: str) -> None:
        """Go on to the knowledge part, now that the visual part is answered."""
        self.query, self.is_visual, self.is_settled = split.about(visual_answer), False, True
        # The facts that led to the name of the object add nothing once the name is known.
        self.context = (f"{split.visual.rstrip(' ?')}: {visual_answer}",)


class WorkingMemory:
    """The states from the first to the present one."""

    def __init__(self, query: str, facts: Sequence[str] = ()) -> None:
        self._states = [MemoryState(query=query, context=tuple(facts))]

    @property
    def now(self) -> MemoryState:
        """Return the present state."""
        return self._states[-1]

    def push(self, state: MemoryState) -> None:
        """Move on to a state."""
        self._states.append(state)

    def pop(self) -> bool:
        """Go back to the previous state and exclude the action that led here.

        Return False if there is no previous state or this one is settled; then nothing is left to
        try.
        """
        if len(self._states) == 1 or self.now.is_settled:
            return False
        left = self._states.pop()
        if left.led_here is not None:
            self.now.excluded[left.led_here] = None
        return True


@dataclass(frozen=True)
class Observation:
    """The findings of an action.

    Attributes:
        lines: one finding per line; empty if the action found nothing.
        focus: the object to look at from now on; None keeps the focus.
        objects: the listed objects with their descriptions; None keeps the list.
        is_plain: the findings are useful as they are and need no judgement.
    """

    lines: tuple[str, ...]
    focus: Any = None
    objects: tuple[tuple[Any, str], ...] | None = None
    is_plain: bool = False


@dataclass(frozen=True)
class SeekTools:
    """The input of actions: the tools of a run and the picture.

    Attributes:
        ask: answers a short question with the language model, from facts.
        scored: write scores beside objects and facts; small models were trained without them.
        region_facts: describe regions by :func:`described`, not by captions alone.
    """

    session: ToolSession
    picture: Ref
    ask: Callable[[str, tuple[str, ...]], str]
    scored: bool = False
    region_facts: bool = False

    def call(self, tool: str, *args: Any) -> Any:
        """Call a tool; the call appears in the trace.

        Raises:
            ViperError: the tool refused or failed.
        """
        return self.session.call(tool, args, {}, None)


# Number of wordings in which an action may be tried in one state; without a limit a planner
# rewords one search until its steps are used up.
MAX_WORDINGS = 3


def perform(action: str, words: str, now: MemoryState, tools: SeekTools) -> Observation:
    """Perform an action and return its findings.

    Args:
        words: the planner's argument for the action; if empty, the query is used.

    Raises:
        ViperError: a tool refused or failed.
    """
    place = tools.picture if now.focus is None else now.focus
    match action:
        case "caption":
            findings = [tools.call("caption_image", place)]
        case "vqa":
            findings = [tools.call("simple_query", place, words or now.query)]
        case "detect":
            patches = tools.call("find", tools.picture, OBJECT)[:MAX_OBJECTS]
            scores = tools.session.calls[-1].scores if tools.scored else ()
            objects = tuple((patch, "; ".join(described(patch, tools))) for patch in patches)
            lines = [f"object {number}: {label}" for number, (_, label) in enumerate(objects, 1)]
            if tools.scored:
                pairs = zip_longest(lines, scores[: len(lines)])
                lines = [f"{line} (score {score:.2f})" if score else line for line, score in pairs]
            return Observation(tuple(lines), objects=objects, is_plain=True)
        case "select":
            focus, label = now.objects[int(words) - 1]
            line = f"looking at object {int(words)}: {label}"
            return Observation((line,), focus=focus, is_plain=True)
        case "ocr":
            findings = _written(place, tools)
        case "text_search":
            findings = tools.call("text_search", words or now.query)[:MAX_PASSAGES]
        case "llm_qa":
            findings = [tools.ask(words or now.query, now.context)]
        case _:  # entities, captions, identical and titles say what is wanted of similar pictures
            findings = _similar(place, action, tools)
    return Observation(tuple(text for item in findings if (text := str(item).strip())))


def described(place: Any, tools: SeekTools) -> list[str]:
    """Return the caption of a region, with ``region_facts`` also what else tools tell of it.

    These are entities of similar pictures and text, at most :data:`MAX_FACTS` of each. A tool that
    fails leaves its facts out; the trace has the failed call.

    Source: AVIS (Hu et al. 2023), listings 2 and 4. Differs: no query suggestions and no products
    with scores, because open image searches give neither; the whole picture is no object to select,
    because its facts are known from the start.

    Raises:
        ViperError: the caption failed.
    """
    facts = [str(tools.call("caption_image", place))]
    if not tools.region_facts:
        return facts
    for prefix, find in (
        ("text: ", lambda: [line[:_FACT_LENGTH] for line in _written(place, tools)]),
        ("similar pictures show ", lambda: _similar(place, "entities", tools, _FACT_LENGTH)),
    ):
        try:
            found = find()[:MAX_FACTS]
        except CancelledError:
            raise
        except ViperError:
            continue
        facts += [prefix + ", ".join(found)] if found else []
    return facts


def _written(place: Any, tools: SeekTools) -> list[str]:
    return str(tools.call("ocr", place)).splitlines()


def _similar(place: Any, about: str, tools: SeekTools, length: int | None = None) -> list[str]:
    """Return facts on similar pictures, with their similarity if scores are wanted.

    Args:
        length: greatest length of each; None does not cut them.
    """
    facts: list[str] = tools.call("image_search", place, about)
    if not tools.scored:
        return [fact[:length] for fact in facts]
    pictures = reversed(similar_pictures(tools.session, place))
    alike = {fact: each.score for each in pictures for fact in facts_of(each, about)}
    return [
        f"{fact[:length]} (similarity {alike[fact]:.2f})" if fact in alike else fact[:length]
        for fact in facts
    ]


def is_possible(action: str, now: MemoryState) -> bool:
    """Return whether the action has anything left to act on."""
    return action != "select" or bool(_objects_left(now))


def _objects_left(now: MemoryState) -> dict[str, str]:
    """Return the descriptions of the objects that were not selected here, by number."""
    labels = {str(number): label for number, (_, label) in enumerate(now.objects, 1)}
    return {each: labels[each] for each in labels if ("select", each) not in now.excluded}


def exhausted_actions(now: MemoryState) -> set[str]:
    """Return the actions that are exhausted at a state.

    ``select`` is exhausted only when every object was selected, an action that was tried in several
    words after :data:`MAX_WORDINGS`.
    """
    tries = Counter(action for action, _ in now.excluded)
    worded = {action for action, words in now.excluded if words}
    actions = {each for each in tries if each not in worded or tries[each] >= MAX_WORDINGS}
    return (actions - {"select"}) | (set() if is_possible("select", now) else {"select"})


def resolve_words(action: str, words: str, now: MemoryState) -> str:
    """Resolve the argument of an action: for ``select`` it becomes the number of an object.

    An object that was selected before is not selected again.
    """
    if action != "select":
        return words
    left = _objects_left(now)
    match = re.match(r"\D{0,8}(\d+)\b", words)
    if match and match[1] in left:
        return match[1]
    keywords = _words(words) or _words(now.query)
    # Among objects that fit equally the first is the surest.
    return max(left, key=lambda number: len(keywords & _words(left[number])), default="")


def nearest(query: str, tools: SeekTools) -> str:
    """Return the entity of the picture that is most like what a query names.

    That is the one of the detector's boxes that fits the query best; if no entity is known for it,
    the whole picture. "" if neither is like a picture of the collection.

    Raises:
        ViperError: a tool refused or failed.
    """
    parts = [tools.picture]
    if objects := tools.call("find", tools.picture, OBJECT)[:MAX_OBJECTS]:
        parts.insert(0, objects[tools.call("best_image_match", objects, [query])])
    for part in parts:
        named = (each for each in similar_pictures(tools.session, part) if each.entities)
        if (best := max(named, key=lambda picture: picture.score, default=None)) is not None:
            return best.entities[0].name
    return ""


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
