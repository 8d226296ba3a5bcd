"""The canonical program of a meaning: short, one idiom per concept, regular names, no guards.

An empty list raises IndexError on purpose: self-correction repairs that. ``abstract`` programs use
the routines (``sort_patches_left_to_right``), ``vipergpt`` ones plain Python on geometry. A program
first finds the objects of the meaning's slots, then ends in the lines of its type in
``programs.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from viper.errors import UnknownNameError
from viper_lab.world.events import VERBS
from viper_lab.world.queries.lexicon import head, is_general
from viper_lab.world.queries.meaning import SELECTIONS, SHARES, Meaning
from viper_lab.world.queries.temporal import event_sentence

APIS = ("abstract", "vipergpt")

_PARTS = tomllib.loads(Path(__file__).with_name("programs.toml").read_text("utf-8"))

# Fixed wordings of programs' questions to the VQA model.
ATTRIBUTE_QUESTIONS: Mapping[str, str] = _PARTS["attribute_questions"]

# Side -> routine that orders, and whether ranks count from the end of what it returns.
SORTS: Mapping[str, tuple[str, bool]] = _PARTS["sorts"]

REGIONS: Mapping[str, str] = _PARTS["region_routines"]
COMPARED: Mapping[str, str] = _PARTS["compared"]

_LISTS = {"patch": "patches", "anchor": "anchors", "other": "others"}

# Slot that holds a selection -> the variable of its object.
_VARIABLES = {
    "of": "patch",
    "first": "patch",
    "second": "other",
    "anchor": "anchor",
    "second_anchor": "other",
}


def gold_program(meaning: Meaning, api: str = "abstract", task: str | None = None) -> str:
    """Return the canonical program of a meaning under an API, without a final newline.

    Args:
        task: ``choice`` for a query about a clip; None: the meaning's type decides.

    Raises:
        UnknownNameError: for an API other than ``abstract`` and ``vipergpt``.
    """
    if api not in APIS:
        raise UnknownNameError("API", api, APIS)
    if task == "choice" or meaning.type in SHARES["video"]:
        return "\n    ".join(_choice_lines(meaning, api))
    writer = _Writer(api)
    writer.select(meaning, "patch")
    if meaning.type in SELECTIONS:
        writer.add("return patch")
    return "\n    ".join(writer.lines)


class _Writer:
    """Collects the lines of a program about a picture."""

    def __init__(self, api: str) -> None:
        self.abstract = api == "abstract"
        self.last_lines = {**_PARTS["lines"], **_PARTS[f"lines_{api}"]}
        self.lines = ["def execute_command(image):", "image_patch = ImagePatch(image)"]

    def add(self, *lines: str) -> None:
        self.lines += lines

    def find(self, name: str, kind: str, where: str = "image_patch") -> None:
        self.add(f"{name} = {where}.find('{kind}')")

    def keep(self, patches: str, test: str) -> None:
        self.add(f"{patches} = [p for p in {patches} if {test}]")

    def pick(self, name: str, side: str, rank: int = 1) -> None:
        """Order the list of ``name`` and take the rank-th from that side."""
        patches = _LISTS[name]
        routine, from_end = SORTS[side]
        if self.abstract:
            self.add(f"{patches} = {routine}({patches})")
        else:
            self.add(f"{patches}.sort(key=lambda p: p.{_PARTS['sort_keys'][side]})")
        self.add(f"{name} = {patches}[{-rank if from_end else rank - 1}]")

    def region(self, meaning: Meaning) -> None:
        """Set ``patches`` to those of a kind on one side of the anchor."""
        self.select(meaning["anchor"], "anchor")
        relation, kind = meaning["relation"], meaning["kind"]
        if self.abstract and relation in REGIONS:
            self.add(f"region = {_PARTS['region_routines'][relation]}(anchor)")
            self.find("patches", kind, "region")
        else:
            self.find("patches", kind)
            self.keep("patches", _PARTS["region_tests"][relation])

    def look(self, meaning: Meaning, patches: str) -> None:
        """Find the objects of the slots."""
        if "relation" in meaning:
            return self.region(meaning)
        for slot, variable in _VARIABLES.items():
            if slot in meaning:
                self.select(meaning[slot], variable)
        if "kind" not in meaning or meaning.type == "same_color":
            return None
        kind = meaning["kind"]
        self.find(patches, kind)
        if meaning.type == "closest" and is_general(kind):
            # the anchor is a thing too; -1 is its distance to itself
            self.keep("patches", "distance(p, anchor) > -0.5")
        if "property" in meaning:
            self.keep(patches, f"p.verify_property('{head(kind)}', '{meaning['property']}')")
        if "other_kind" in meaning:
            others = "anchors" if meaning.type == "near_pair" else "others"
            self.find(others, meaning["other_kind"])
        return None

    def select(self, meaning: Meaning, name: str) -> None:
        """Put a selection's object in the variable ``name``, or answer a question."""
        self.look(meaning, _LISTS[name])
        if meaning.type in SELECTIONS and "side" in meaning:
            self.pick(name, meaning["side"], int(str(meaning.slots.get("rank", 1))))
            return
        fillers = {**meaning.slots, "name": name, "patches": _LISTS[name]}
        if "attribute" in meaning:
            fillers["asked"] = ATTRIBUTE_QUESTIONS[meaning["attribute"]]
        if "extent" in meaning:
            fillers["choose"] = "max" if meaning["extent"] == "biggest" else "min"
        if "of" in meaning:
            fillers["head"] = head(meaning["of"]["kind"])
        if "first" in meaning:
            fillers["first_kind"] = meaning["first"]["kind"]
            fillers["second_kind"] = meaning["second"]["kind"]
            order = meaning.slots.get("extent") or meaning.slots.get("side")
            fillers["compared"] = COMPARED.get(str(order), "")
        self.add(*(line.format(**fillers) for line in self.last_lines[meaning.type]))


def clip_question(meaning: Meaning) -> str:
    """Return the program's question to the video model, ``what does the red cube do?``."""
    question: str = _PARTS["clip_questions"][meaning.type.partition("_")[0]]
    verb = VERBS[meaning["kind"]] if "kind" in meaning else ""
    return question.format(actor=meaning.slots.get("actor", ""), verb=verb)


def takes_last_sentence(meaning: Meaning) -> bool:
    """Return whether the answer is in the last sentence of the description, not the first."""
    return meaning.type.endswith(("_before", "_last"))


def _choice_lines(meaning: Meaning, api: str) -> list[str]:
    lines = ["def execute_command(video, question, possible_answers):"]
    lines.append("video_segment = VideoSegment(video)")
    index = -1 if takes_last_sentence(meaning) else 0
    question, when = clip_question(meaning), meaning.type.rsplit("_", 1)[-1]
    sentence = event_sentence(meaning["event"]) if "event" in meaning else None
    if api == "abstract":
        segment = "video_segment" if sentence is None else "segment"
        if sentence is not None:
            lines.append(f"segment = video_segment.get_video_segment_{when}_event('{sentence}')")
        lines.append(f"info = {segment}.caption_video('{question}')")
        lines.append(f"info = info.split('. ')[{index}]")
    elif sentence is None:
        lines.append(f"info = video_segment.simple_query('{question}')")
        lines.append(f"info = info.split('. ')[{index}]")
    else:
        lines.append("info = video_segment.simple_query('what happens?')")
        lines.append(f"info = info.split('{sentence}')[{-1 if when == 'after' else 0}]")
        lines.append(f"info = [s for s in info.split('. ') if {_sentence_test(meaning)}][{index}]")
    lines.append("return select_answer(info, question, possible_answers)")
    return lines


def _sentence_test(meaning: Meaning) -> str:
    """Return the condition on sentence ``s`` in programs that read the whole description."""
    if "actor" in meaning:
        return f"s.startswith('the {meaning['actor']}')"
    if "kind" in meaning:
        return f"'{VERBS[meaning['kind']]}' in s"
    return "'the' in s"
