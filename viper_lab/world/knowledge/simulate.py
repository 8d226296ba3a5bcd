"""Simulated decisions: those of an expert who knows the answer and sees the tools' results.

The search is the real one (:class:`viper.strategies.seek.seeker.Seeker`). Tools answer from the
catalogue with realistic mistakes, and an expert decides and judges. Each prompt to a model is
recorded with the expert's reply. Nothing is rendered.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from types import SimpleNamespace
from typing import Any

from viper.models.llm.messages import Prompt, as_text
from viper.prompting.ranking import Scores, by_words
from viper.prompting.seeking import (
    MAX_FOUND,
    ActionChoice,
    Decision,
    ResultVerdict,
    Split,
    judge_prompt,
    parts_of,
    plan_prompt,
    short_answer_prompt,
    split_prompt,
)
from viper.sandbox import Ref
from viper.schema import Query
from viper.strategies.base import RunContext
from viper.strategies.seek.actions import MemoryState, Observation
from viper.strategies.seek.decisions import RecordedDecisions
from viper.strategies.seek.graph import ACTIONS, TransitionGraph
from viper.strategies.seek.seeker import Seeker
from viper.strategies.settings import RunSettings
from viper_lab.world.knowledge.articles import Article, articles, left_out
from viper_lab.world.knowledge.catalogue import Catalogue, Design, Look
from viper_lab.world.knowledge.facts import COMMON, RELATIONS, fact_text
from viper_lab.world.knowledge.gallery import notes_of, work_note
from viper_lab.world.knowledge.questions import UNANSWERABLE, KnowledgeQuestion
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES, SIZES

STYLE = "compact"

# End of every reply.
END = "\n\n"

MAX_STEPS = 30

# Probability of a useless action, so that the model learns ways back.
STRAY = 0.12

# Rates of wrong attributes in captions, of missed pictures, and of look-alikes found instead.
_MISREAD, _MISSED, _TAKEN_FOR = 0.04, 0.06, 0.03

_NOTHING = ResultVerdict("uninformative")
# Words of each attribute of a look, in its order.
_LOOK_WORDS = (SHAPES, COLOURS, MATERIALS, SIZES)

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class ExpertReply:
    """A prompt with the expert's reply. ``sort``: split, plan, judge, answer, or read."""

    sort: str
    prompt: str
    reply: str


@dataclass(frozen=True)
class Library:
    """A catalogue with its texts and the notes of its pictures."""

    catalogue: Catalogue
    texts: Sequence[Article]
    notes: dict[str, list[dict[str, Any]]]

    @classmethod
    def of(cls, catalogue: Catalogue) -> Library:
        """Build the library of a catalogue."""
        random = Random(f"library {catalogue.split} {catalogue.seed}")
        notes = {design.name: notes_of(catalogue, design, random) for design in catalogue.designs}
        return cls(catalogue, articles(catalogue, left_out(catalogue)), notes)

    def search(self, query: str, limit: int = 10) -> list[str]:
        """Return passages by BM25, as an index of texts does."""
        scores = self._scores(query)
        best = sorted(range(len(scores)), key=lambda place: -scores[place])[:limit]
        return [f"{self.texts[x].title}: {self.texts[x].text}" for x in best if scores[x]]

    @cached_property
    def _scores(self) -> Scores:
        return by_words([f"{text.title} {text.text}" for text in self.texts])


class Expert(Seeker):
    """A search with the decisions and verdicts of an expert who knows the answer."""

    def __init__(
        self, library: Library, question: KnowledgeQuestion, graph: TransitionGraph, random: Random
    ) -> None:
        self.library, self.question, self.random = library, question, random
        self.asked: list[ExpertReply] = []
        self.hop = 0
        tools = SimpleNamespace(call=self._tool, ask=self._short_answer)
        tools.scored = tools.region_facts = False
        tools.session, tools.picture = SimpleNamespace(calls=[]), Ref("image", ("image0", 192, 144))
        query = Query(question.text, "question", "image")
        settings = RunSettings().changed(max_steps=MAX_STEPS)
        context = RunContext(query, None, settings, threading.Event())  # type: ignore[arg-type]
        super().__init__(context, graph, tools, None, STYLE, RecordedDecisions())  # type: ignore[arg-type]

    def _split(self, question: str) -> Split:
        split = Split(self.question.visual, self.question.knowledge)
        self._keep(
            "split",
            split_prompt(question, STYLE),
            f"{split.visual}\n# knowledge: {split.knowledge}",
        )
        return split

    def _decide(self, now: MemoryState, allowed: Sequence[str]) -> tuple[Decision, bool]:
        decision = self._best(now, allowed)
        if len(allowed) > 1 or ACTIONS[allowed[0]].takes:
            choices = [ActionChoice(action, "") for action in allowed]
            words = f": {decision.words}" if decision.words else ""
            prompt = plan_prompt(now.query, now.context, choices, (), STYLE)
            self._keep("plan", prompt, f"{decision.action}{words}")
        if self.random.random() < STRAY:
            stray = self.random.choice(list(allowed))
            decision = Decision(stray, now.query if ACTIONS[stray].takes else "")
        return decision, True

    def _judge(
        self, now: MemoryState, decision: Decision, seen: Observation, step: dict[str, Any]
    ) -> ResultVerdict:
        if not seen.lines:
            return _NOTHING
        if seen.is_plain:
            return ResultVerdict("informative", seen.lines[0] if len(seen.lines) == 1 else "")
        verdict = _NOTHING
        parts = [part for line in seen.lines[:MAX_FOUND] for part in parts_of(line, STYLE)]
        for part in parts:
            verdict = self._verdict(now, decision.action, [part])
            reply = {"uninformative": "no", "informative": "more: ", "answer": "answer: "}
            prompt = judge_prompt(now.query, now.context, decision, [part], STYLE)
            self._keep("judge", prompt, f"{reply[verdict.kind]}{verdict.extracted}")
            if verdict.kind != "uninformative":
                break
        if verdict.kind == "informative" and not now.is_visual:
            self.hop += 1
        return verdict

    def _best(self, now: MemoryState, allowed: Sequence[str]) -> Decision:
        """Return the first of the expert's preferred actions that is allowed."""
        wishes = self._looking(now) if now.is_visual else self._knowing()
        for action, words in wishes:
            if action in allowed:
                return Decision(action, words)
        first = allowed[0]
        return Decision(first, now.query if ACTIONS[first].takes else "")

    def _looking(self, now: MemoryState) -> list[tuple[str, str]]:
        question = self.question
        if question.kind == "picture":
            return [("identical", ""), ("caption", ""), ("detect", ""), ("select", now.query)]
        if now.focus is None:
            return [("select", _subject_of(now.query)), ("detect", "")]
        if question.kind in ("color", "common"):
            return [("vqa", now.query)]
        naming = [("entities", ""), ("captions", ""), ("titles", "")]
        if question.kind == "marked" and not self._mark_known(now):
            return [("ocr", ""), *naming]
        return naming

    def _knowing(self) -> list[tuple[str, str]]:
        question = self.question
        if question.kind == "common":
            return [("llm_qa", question.knowledge.replace("#", question.seen))]
        if question.kind == "color":
            words = question.knowledge.replace("#", question.seen)
        else:
            thing, relation, _ = question.path[min(self.hop, len(question.path) - 1)]
            words = RELATIONS[relation].question.replace("#", thing)
        return [("text_search", words), ("llm_qa", words)]

    def _verdict(self, now: MemoryState, action: str, lines: Sequence[str]) -> ResultVerdict:
        verdict = self._named_in(now, action, lines) if now.is_visual else None
        if now.is_visual:
            return verdict or _NOTHING
        question = self.question
        if question.kind == "common":
            is_known = action == "llm_qa" and lines[0] == question.answer
            return ResultVerdict("answer", question.answer) if is_known else _NOTHING
        if action != "text_search" or self.hop >= len(question.path):
            return _NOTHING
        thing, relation, value = question.path[self.hop]
        if not any(self._tells(line, thing, relation, value) for line in lines):
            return _NOTHING
        if self.hop + 1 == len(question.path):
            return ResultVerdict("answer", value)
        return ResultVerdict("informative", fact_text(relation, thing, value))

    def _tells(self, line: str, thing: str, relation: str, value: str) -> bool:
        if relation not in RELATIONS:  # a word for a color
            return value in line and thing in line
        sentences = RELATIONS[relation].statements
        return any(text.replace("#", thing).replace("*", value) in line for text in sentences)

    def _named_in(
        self, now: MemoryState, action: str, lines: Sequence[str]
    ) -> ResultVerdict | None:
        """Return the verdict if the result answers the visual sub-question, otherwise None."""
        kind = self.question.kind
        if action == "vqa" and kind in ("color", "common"):
            able = COLOURS if kind == "color" else SHAPES
            is_sure = now.focus is not None and lines[0] in able
            return ResultVerdict("answer", lines[0]) if is_sure else None
        if kind == "picture":
            if action == "caption" and now.focus is None:
                return ResultVerdict("informative", lines[0])
            names = {work.name for work in self.library.catalogue.works}
            named = _first_named(lines, names) if action == "identical" else ""
            return ResultVerdict("answer", named) if named else None
        if kind not in ("design", "marked"):
            return None
        if action == "ocr" and kind == "marked":
            marks = {design.mark for design in self.library.catalogue.designs if design.mark}
            mark = next((line for line in lines if line in marks), "")
            return ResultVerdict("informative", mark) if mark else None
        if action not in ("entities", "captions", "titles"):
            return None
        if kind == "marked":
            bearing = [line for line in lines if any(f"marked {x}" in line for x in now.context)]
            return ResultVerdict("answer", bearing[0].split(":")[0]) if bearing else None
        names = {design.name for design in self.library.catalogue.designs}
        named = _first_named(lines, names)
        return ResultVerdict("answer", named) if named else None

    def _mark_known(self, now: MemoryState) -> bool:
        return any(entry.mark and entry.mark in now.context for entry in self.question.shown)

    def _short_answer(self, question: str, context: tuple[str, ...]) -> str:
        answers = {
            common.replace("#", shape): answer
            for common, by_shape in COMMON.items()
            for shape, answer in by_shape.items()
        }
        answer = answers.get(question, "")
        self._keep("answer", short_answer_prompt(question, context, STYLE), answer or "unknown")
        return answer

    def _keep(self, sort: str, prompt: Prompt, reply: str) -> None:
        self.asked.append(ExpertReply(sort, as_text(prompt), f" {reply}{END}"))

    def _tool(self, tool: str, *args: Any) -> Any:
        answer: Any = getattr(self, f"_tool_{tool}")(*args)
        return answer

    def _tool_find(self, picture: Any, phrase: str) -> list[Any]:
        places = [place for place in range(len(self.question.shown)) if self.random.random() > 0.03]
        self.random.shuffle(places)
        return [Ref("patch", (place,)) for place in places]

    def _tool_caption_image(self, patch: Ref) -> str:
        if patch.kind == "image":
            return _describe(self.random, self.question.shown)
        if self.random.random() < 0.02:
            return _describe(self.random, self.question.shown)
        return f"a {_misread(self._design(patch).look, self.random).words}"

    def _tool_simple_query(self, patch: Ref, question: str) -> str:
        if patch.kind == "image":
            look = self.random.choice(self.question.shown).look
        else:
            look = _misread(self._design(patch).look, self.random)
        if "color" in question:
            return look.colour
        return look.shape

    def _tool_ocr(self, patch: Ref) -> str:
        if self.random.random() < 0.08:
            return self.random.choice(("0", "e", "1", "o"))
        is_target = patch.kind != "image" and patch.fields[0] == self.question.target
        return self._design(patch).mark if is_target else ""

    def _tool_image_search(self, patch: Ref, about: str) -> list[str]:
        lines: dict[str, None] = {}
        if patch.kind == "image" and self.question.kind == "picture":
            note = work_note(self.question.seen, self.random)
            field = "caption" if about in ("identical", "captions") else "title"
            if about != "entities":
                lines[note[field]] = None
        if about == "identical" or patch.kind == "image":
            return list(lines)
        for design in self._alike(self._design(patch)):
            for note in self.library.notes[design.name]:
                if self.random.random() < _MISSED:
                    continue
                lines.update(dict.fromkeys(lines_of_note(note, about)))
        return list(lines)

    def _tool_text_search(self, query: str) -> list[str]:
        return self.library.search(query)

    def _alike(self, design: Design) -> list[Design]:
        same = [other for other in self.library.catalogue.designs if other.look == design.look]
        self.random.shuffle(same)
        others = [d for d in self.library.catalogue.look_alikes(design) if d not in same]
        return same + [other for other in others if self.random.random() < _TAKEN_FOR]

    def _design(self, patch: Ref) -> Design:
        place = patch.fields[0] if patch.kind == "patch" else 0
        return self.question.shown[int(place)]


def decisions(
    library: Library, question: KnowledgeQuestion, graph: TransitionGraph, random: Random
) -> tuple[list[ExpertReply], Any]:
    """Return all prompts of a search with the expert's replies, and the expert's answer."""
    expert = Expert(library, question, graph, random)
    outcome = expert.seek(question.text)
    answer = outcome[0] if isinstance(outcome, tuple) else UNANSWERABLE
    return expert.asked, answer


def lines_of_note(note: dict[str, Any], about: str) -> Iterator[str]:
    """Yield the lines of an image search ``about`` a picture with that note."""
    if about == "entities":
        for entity in note.get("entities", ()):
            yield f"{entity['name']}: {entity['description']}"
    else:
        yield note["title" if about == "titles" else "caption"]


def _first_named(lines: Sequence[str], names: set[str]) -> str:
    for line in lines:
        for word in _words(line):
            if word in names:
                return word
    return ""


def _subject_of(question: str) -> str:
    """Return the subject of a visual sub-question: its words without the question's own."""
    subject = re.sub(r"^what (?:is|color is|shape is) the |\bcalled\b|\?$", "", question)
    return subject.strip(" ?")


def _misread(look: Look, random: Random) -> Look:
    values = [
        random.choice(family) if random.random() < _MISREAD else value
        for value, family in zip(vars(look).values(), _LOOK_WORDS, strict=True)
    ]
    return Look(*values)


def _describe(random: Random, designs: Sequence[Design]) -> str:
    parts = [f"a {design.look.colour} {design.look.shape}" for design in designs]
    parts += random.choices(parts, k=random.randint(0, 3))
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
