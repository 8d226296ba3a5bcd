"""The canonical program of a meaning: short, one idiom a concept, regular names, no guards.

An empty list raises IndexError on purpose: that is what self-correction repairs.
``abstract`` programs use the routines (``sort_patches_left_to_right``), ``vipergpt``
ones plain Python on geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viper.errors import UnknownNameError
from viper_lab.world.events import VERBS
from viper_lab.world.queries.lexicon import head, is_general
from viper_lab.world.queries.meaning import SELECTIONS, Meaning
from viper_lab.world.queries.temporal import event_sentence
from viper_lab.world.queries.wording import plural

APIS = ("abstract", "vipergpt")

SORT_ROUTINES: Mapping[str, tuple[str, bool]] = {
    "left": ("sort_patches_left_to_right", False),
    "right": ("sort_patches_left_to_right", True),
    "bottom": ("sort_patches_bottom_to_top", False),
    "top": ("sort_patches_bottom_to_top", True),
    "front": ("sort_patches_front_to_back", False),
    "back": ("sort_patches_front_to_back", True),
}
"""Side -> routine, and whether ranks count from the end of what it returns."""

SORT_KEYS: Mapping[str, str] = {
    "left": "horizontal_center",
    "right": "horizontal_center",
    "bottom": "vertical_center",
    "top": "vertical_center",
    "front": "compute_depth()",
    "back": "compute_depth()",
}

REGION_ROUTINES: Mapping[str, str] = {
    "left": "get_patch_left_of",
    "right": "get_patch_right_of",
    "above": "get_patch_above_of",
    "below": "get_patch_below_of",
}

REGION_TESTS: Mapping[str, str] = {
    "left": "p.horizontal_center < {a}.left",
    "right": "p.horizontal_center > {a}.right",
    "above": "p.vertical_center > {a}.upper",
    "below": "p.vertical_center < {a}.lower",
    "front": "p.compute_depth() < {a}.compute_depth()",
    "behind": "p.compute_depth() > {a}.compute_depth()",
}

COMPARE: Mapping[str, str] = {
    "left": "patch.horizontal_center < other.horizontal_center",
    "right": "patch.horizontal_center > other.horizontal_center",
    "top": "patch.vertical_center > other.vertical_center",
    "bottom": "patch.vertical_center < other.vertical_center",
    "front": "patch.compute_depth() < other.compute_depth()",
    "back": "patch.compute_depth() > other.compute_depth()",
    "biggest": "patch.area > other.area",
    "smallest": "patch.area < other.area",
}

ATTRIBUTE_QUESTIONS: Mapping[str, str] = {
    "color": "what color is this?",
    "shape": "what shape is this?",
    "material": "what is this made of?",
    "size": "what size is this?",
}
"""The fixed wordings that programs ask the VQA model."""

_LISTS = {"patch": "patches", "anchor": "anchors", "other": "others"}


def gold_program(meaning: Meaning, api: str = "abstract", task: str | None = None) -> str:
    """The canonical program of a meaning under an API; ends without a newline.

    Args:
        task: ``choice`` for a query about a clip; the meaning's type decides when None.

    Raises:
        UnknownNameError: for an API other than ``abstract`` and ``vipergpt``.
    """
    if api not in APIS:
        raise UnknownNameError("API", api, APIS)
    if task == "choice" or meaning.type in _CLIP_QUESTIONS:
        return "\n    ".join(_choice_lines(meaning, api))
    writer = _Writer(api)
    if meaning.type in SELECTIONS:
        writer.select(meaning, "patch")
        writer.add("return patch")
    else:
        _QUESTIONS[meaning.type](writer, meaning)
    return "\n    ".join(writer.lines)


class _Writer:
    """Collects the lines of a program about a picture."""

    def __init__(self, api: str) -> None:
        self.abstract = api == "abstract"
        self.lines = ["def execute_command(image):", "image_patch = ImagePatch(image)"]

    def add(self, *lines: str) -> None:
        self.lines += lines

    def find(self, name: str, kind: str, where: str = "image_patch") -> None:
        self.add(f"{name} = {where}.find('{kind}')")

    def sort(self, patches: str, side: str) -> None:
        if self.abstract:
            self.add(f"{patches} = {SORT_ROUTINES[side][0]}({patches})")
        else:
            self.add(f"{patches}.sort(key=lambda p: p.{SORT_KEYS[side]})")

    def pick(self, name: str, side: str, rank: int = 1) -> None:
        """Order the list of ``name`` and take the rank-th from that side."""
        patches = _LISTS[name]
        self.sort(patches, side)
        from_end = SORT_ROUTINES[side][1]
        self.add(f"{name} = {patches}[{-rank if from_end else rank - 1}]")

    def keep(self, patches: str, test: str) -> None:
        self.add(f"{patches} = [p for p in {patches} if {test}]")

    def region(self, meaning: Meaning) -> None:
        """``patches`` become those of a kind on one side of the anchor."""
        self.select(meaning["anchor"], "anchor")
        relation, kind = meaning["relation"], meaning["kind"]
        if self.abstract and relation in REGION_ROUTINES:
            self.add(f"region = {REGION_ROUTINES[relation]}(anchor)")
            self.find("patches", kind, "region")
        else:
            self.find("patches", kind)
            self.keep("patches", REGION_TESTS[relation].format(a="anchor"))

    def select(self, meaning: Meaning, name: str) -> None:
        """Leave the object that a selection denotes in the variable ``name``."""
        _SELECT[meaning.type](self, meaning, name)


def _unique(w: _Writer, meaning: Meaning, name: str) -> None:
    w.find(_LISTS[name], meaning["kind"])
    w.add(f"{name} = {_LISTS[name]}[0]")


def _extreme(w: _Writer, meaning: Meaning, name: str) -> None:
    w.find(_LISTS[name], meaning["kind"])
    w.pick(name, meaning["side"], meaning.slots.get("rank", 1))  # type: ignore[arg-type]


def _middle(w: _Writer, meaning: Meaning, name: str) -> None:
    patches = _LISTS[name]
    w.find(patches, meaning["kind"])
    if w.abstract:
        w.add(f"{name} = get_middle_patch({patches})")
    else:
        w.sort(patches, "left")
        w.add(f"{name} = {patches}[len({patches}) // 2]")


def _biggest(w: _Writer, meaning: Meaning, name: str) -> None:
    w.find(_LISTS[name], meaning["kind"])
    choose = "max" if meaning["extent"] == "biggest" else "min"
    w.add(f"{name} = {choose}({_LISTS[name]}, key=lambda p: p.area)")


def _closest(w: _Writer, meaning: Meaning, name: str) -> None:
    w.select(meaning["anchor"], "anchor")
    w.find("patches", meaning["kind"])
    if is_general(meaning["kind"]):
        # the anchor is a thing too; -1 is its distance to itself
        w.keep("patches", "distance(p, anchor) > -0.5")
    if w.abstract:
        w.add(f"{name} = get_patch_closest_to_anchor_object(patches, anchor)")
    else:
        w.add(f"{name} = min(patches, key=lambda p: distance(p, anchor))")


def _farthest_from(w: _Writer, meaning: Meaning, name: str) -> None:
    w.select(meaning["anchor"], "anchor")
    w.find("patches", meaning["kind"])
    w.add(f"{name} = max(patches, key=lambda p: distance(p, anchor))")


def _region(w: _Writer, meaning: Meaning, name: str) -> None:
    w.region(meaning)
    w.add(f"{name} = patches[0]")


def _region_extreme(w: _Writer, meaning: Meaning, name: str) -> None:
    w.region(meaning)
    w.pick(name, meaning["side"])


def _filtered_extreme(w: _Writer, meaning: Meaning, name: str) -> None:
    w.find("patches", meaning["kind"])
    w.keep("patches", f"p.verify_property('{head(meaning['kind'])}', '{meaning['property']}')")
    w.pick(name, meaning["side"])


def _same_color(w: _Writer, meaning: Meaning, name: str) -> None:
    w.select(meaning["anchor"], "anchor")
    w.add(f"color = anchor.simple_query('{ATTRIBUTE_QUESTIONS['color']}')")
    w.add(f"patches = image_patch.find(color + ' {meaning['kind']}')", f"{name} = patches[0]")


def _between(w: _Writer, meaning: Meaning, name: str) -> None:
    w.select(meaning["anchor"], "anchor")
    w.select(meaning["second_anchor"], "other")
    w.find("patches", meaning["kind"])
    w.add("left = min(anchor.horizontal_center, other.horizontal_center)")
    w.add("right = max(anchor.horizontal_center, other.horizontal_center)")
    w.keep("patches", "left < p.horizontal_center < right")
    w.add(f"{name} = patches[0]")


def _near_pair(w: _Writer, meaning: Meaning, name: str) -> None:
    w.find("patches", meaning["kind"])
    w.find("anchors", meaning["other_kind"])
    w.add(f"{name} = min(patches, key=lambda p: min([distance(p, a) for a in anchors]))")


_SELECT: Mapping[str, Callable[[_Writer, Meaning, str], None]] = {
    "unique": _unique,
    "extreme": _extreme,
    "nth": _extreme,
    "middle": _middle,
    "biggest": _biggest,
    "closest": _closest,
    "farthest_from": _farthest_from,
    "region": _region,
    "region_extreme": _region_extreme,
    "filtered_extreme": _filtered_extreme,
    "same_color": _same_color,
    "between": _between,
    "near_pair": _near_pair,
}


def _attribute(w: _Writer, meaning: Meaning) -> None:
    w.select(meaning["of"], "patch")
    w.add(f"return patch.simple_query('{ATTRIBUTE_QUESTIONS[meaning['attribute']]}')")


def _choose(w: _Writer, meaning: Meaning) -> None:
    w.select(meaning["of"], "patch")
    w.add(f"return patch.best_text_match(['{meaning['property']}', '{meaning['other_property']}'])")


def _verify(w: _Writer, meaning: Meaning) -> None:
    w.select(meaning["of"], "patch")
    test = f"patch.verify_property('{head(meaning['of']['kind'])}', '{meaning['property']}')"
    w.add(f"return bool_to_yesno({test})")


def _count(w: _Writer, meaning: Meaning) -> None:
    w.find("patches", meaning["kind"])
    w.add("return str(len(patches))")


def _count_region(w: _Writer, meaning: Meaning) -> None:
    w.region(meaning)
    w.add("return str(len(patches))")


def _count_filter(w: _Writer, meaning: Meaning) -> None:
    w.find("patches", meaning["kind"])
    w.keep("patches", f"p.verify_property('{head(meaning['kind'])}', '{meaning['property']}')")
    w.add("return str(len(patches))")


def _exists_region(w: _Writer, meaning: Meaning) -> None:
    w.region(meaning)
    w.add("return bool_to_yesno(len(patches) > 0)")


def _several(w: _Writer, meaning: Meaning) -> None:
    w.find("patches", meaning["kind"])
    w.add(f"return bool_to_yesno(len(patches) >= {meaning['least']})")


def _counts(result: str) -> Callable[[_Writer, Meaning], None]:
    def write(w: _Writer, meaning: Meaning) -> None:
        w.find("patches", meaning["kind"])
        w.find("others", meaning["other_kind"])
        w.add(result)

    return write


def _more_of(w: _Writer, meaning: Meaning) -> None:
    w.find("patches", meaning["kind"])
    w.find("others", meaning["other_kind"])
    w.add("if len(patches) > len(others):", f"    return '{plural(meaning['kind'])}'")
    w.add(f"return '{plural(meaning['other_kind'])}'")


def _which_farther(w: _Writer, meaning: Meaning) -> None:
    w.select(meaning["first"], "patch")
    w.select(meaning["second"], "other")
    order = meaning["extent"] if "extent" in meaning else meaning["side"]
    w.add(f"if {COMPARE[order]}:", f"    return '{meaning['first']['kind']}'")
    w.add(f"return '{meaning['second']['kind']}'")


def _same(w: _Writer, meaning: Meaning) -> None:
    w.select(meaning["first"], "patch")
    w.select(meaning["second"], "other")
    question = ATTRIBUTE_QUESTIONS[meaning["attribute"]]
    w.add(f"first = patch.simple_query('{question}')", f"second = other.simple_query('{question}')")
    w.add("return bool_to_yesno(first == second)")


_QUESTIONS: Mapping[str, Callable[[_Writer, Meaning], None]] = {
    "attribute": _attribute,
    "choose": _choose,
    "verify": _verify,
    "count": _count,
    "count_region": _count_region,
    "count_filter": _count_filter,
    "count_sum": _counts("return str(len(patches) + len(others))"),
    "difference": _counts("return str(len(patches) - len(others))"),
    "more_of": _more_of,
    "more_than": _counts("return bool_to_yesno(len(patches) > len(others))"),
    "which_farther": _which_farther,
    "same": _same,
    "exists_region": _exists_region,
    "several": _several,
}

_CLIP_QUESTIONS: Mapping[str, str] = {
    "do_after": "what does the {x} do?",
    "do_before": "what does the {x} do?",
    "do_first": "what does the {x} do?",
    "do_last": "what does the {x} do?",
    "happens_first": "what happens?",
    "happens_last": "what happens?",
    "happens_after": "what happens?",
    "happens_before": "what happens?",
    "which_first": "what {v}?",
    "which_last": "what {v}?",
    "which_after": "what {v}?",
    "which_before": "what {v}?",
    "what_hit": "what does the {x} hit?",
    "who_hits": "what hits the {x}?",
}
"""Type -> the fixed wording in which programs ask for the sentences that matter."""


def clip_question(meaning: Meaning) -> str:
    """What the program of a clip query asks the video model, ``what does the red cube do?``."""
    verb = VERBS[meaning["kind"]] if "kind" in meaning else ""
    return _CLIP_QUESTIONS[meaning.type].format(x=meaning.slots.get("actor", ""), v=verb)


def takes_last_sentence(meaning: Meaning) -> bool:
    """Whether the answer is in the last sentence of the description rather than the first."""
    return meaning.type.endswith(("_before", "_last"))


def _choice_lines(meaning: Meaning, api: str) -> list[str]:
    lines = ["def execute_command(video, question, possible_answers):"]
    lines.append("video_segment = VideoSegment(video)")
    index = -1 if takes_last_sentence(meaning) else 0
    asked, when = clip_question(meaning), meaning.type.rsplit("_", 1)[-1]
    sentence = event_sentence(meaning["event"]) if "event" in meaning else None
    if api == "abstract":
        segment = "video_segment" if sentence is None else "segment"
        if sentence is not None:
            lines.append(f"segment = video_segment.get_video_segment_{when}_event('{sentence}')")
        lines.append(f"info = {segment}.caption_video('{asked}')")
        lines.append(f"info = info.split('. ')[{index}]")
    elif sentence is None:
        lines.append(f"info = video_segment.simple_query('{asked}')")
        lines.append(f"info = info.split('. ')[{index}]")
    else:
        lines.append("info = video_segment.simple_query('what happens?')")
        lines.append(f"info = info.split('{sentence}')[{-1 if when == 'after' else 0}]")
        lines.append(f"info = [s for s in info.split('. ') if {_sentence_test(meaning)}][{index}]")
    lines.append("return select_answer(info, question, possible_answers)")
    return lines


def _sentence_test(meaning: Meaning) -> str:
    """Which sentence ``s`` matters, for programs that read the whole description."""
    if "actor" in meaning:
        return f"s.startswith('the {meaning['actor']}')"
    if "kind" in meaning:
        return f"'{VERBS[meaning['kind']]}' in s"
    return "'the' in s"
