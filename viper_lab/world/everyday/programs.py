"""The program of an everyday question: short lines, one idiom per construct.

Nouns are copied from the question; the tools know their synonyms. A set may be empty: counts and
yes/no questions answer from that. An object that a question presupposes is the first of its list,
so an empty list is an error that self-correction repairs.
"""

from __future__ import annotations

from collections.abc import Mapping

from viper_lab.world.everyday.meaning import EXTENTS, SIDES, Ask, One, Test, Things
from viper_lab.world.queries.programs import ATTRIBUTE_QUESTIONS, COMPARED, REGIONS, SORTS

# Boxes of objects that touch are less than this far apart.
TOUCHING_PIXELS = 2

_TESTS = {
    "left": "{p}.horizontal_center < {a}.horizontal_center",
    "right": "{p}.horizontal_center > {a}.horizontal_center",
    "above": "{p}.vertical_center > {a}.vertical_center",
    "below": "{p}.vertical_center < {a}.vertical_center",
    "front": "{p}.compute_depth() < {a}.compute_depth()",
    "behind": "{p}.compute_depth() > {a}.compute_depth()",
    "on": "is_on({p}, {a})",
    "under": "is_on({a}, {p})",
    "next": "is_next_to({p}, {a})",
    "touching": f"-0.5 < distance({{p}}, {{a}}) < {TOUCHING_PIXELS}",
    "apart": "distance({p}, {a}) > -0.5",
    "between": "is_between({p}, {a}, other)",
}
# What a question of two relations is answered by.
RELATION_ANSWERS = {
    "left": "left",
    "right": "right",
    "front": "in front",
    "behind": "behind",
    "above": "above",
    "below": "below",
    "on": "on top",
    "under": "underneath",
}

_COMPARED = {
    **COMPARED,
    "tallest": "patch.height > other.height",
    "shortest": "patch.height < other.height",
}
_BOUNDS = {"least": ">=", "most": "<=", "exactly": "==", "over": ">", "under": "<"}
_COMBINED = {
    "both": "len(patches) > 0 and len(others) > 0",
    "either": "len(patches) > 0 or len(others) > 0",
    "more": "len(patches) > len(others)",
    "fewer": "len(patches) < len(others)",
    "equal": "len(patches) == len(others)",
}
_PAIRS = {"both": "all(answers)", "either": "any(answers)", "neither": "not any(answers)"}
_QUANTIFIED: Mapping[str, str] = {
    "all": "len(answers) > 0 and all(answers)",
    "any": "any(answers)",
    "none": "not any(answers)",
    "most": "sum(answers) * 2 > len(answers)",
    "exactly": "sum(answers) == {number}",
    "least": "sum(answers) >= {number}",
}


def program_of(ask: Ask) -> str:
    """Return the program of a question about a picture, without a final newline."""
    writer = _Writer()
    writer.ask(ask)
    return "\n    ".join(writer.lines)


class _Writer:
    """Collects the lines of one program."""

    def __init__(self) -> None:
        self.lines = ["def execute_command(image):", "image_patch = ImagePatch(image)"]

    def add(self, *lines: str) -> None:
        self.lines += lines

    def things(self, things: Things, name: str) -> None:
        """Put the patches of a set in the list ``name``."""
        kind, tests = things.kind.phrase, things.tests
        if tests and tests[0].type in REGIONS and not tests[0].negated:
            assert tests[0].anchor is not None
            self.one(tests[0].anchor, "anchor")
            self.add(
                f"region = {REGIONS[tests[0].type]}(anchor)", f"{name} = region.find('{kind}')"
            )
            tests = tests[1:]
        else:
            self.anchors(tests[0] if tests else None)
            self.add(f"{name} = image_patch.find('{kind}')")
        for place, test in enumerate(tests):
            patches = name
            if place or len(tests) < len(things.tests):
                if name == "anchors" and test.anchor is not None:  # its anchor takes this name
                    patches = "chosen"
                    self.add(f"{patches} = {name}")
                self.anchors(test)
            self.add(f"{name} = [p for p in {patches} if {self.holds(test, things.kind.noun)}]")

    def anchors(self, test: Test | None) -> None:
        """Put the objects of a test in ``anchor`` and ``other``."""
        if test is None or test.anchor is None:
            return
        if test.anchor.pick == "pair":
            self.things(test.anchor.things, "anchors")
            self.add("anchor = anchors[0]", "other = anchors[1]")
            return
        self.one(test.anchor, "anchor")
        if test.other is not None:
            self.one(test.other, "other")
        if test.type == "alike":
            self.add(f"{test.word} = anchor.simple_query('{ATTRIBUTE_QUESTIONS[test.word]}')")

    def holds(self, test: Test, noun: str, patch: str = "p") -> str:
        """Return the condition of a test on a patch."""
        if test.type == "is":
            condition = f"{patch}.verify_property('{noun}', '{test.word}')"
        elif test.type == "side":
            condition = _TESTS[test.word].format(p=patch, a="image_patch")
        elif test.type == "alike":
            condition = f"{patch}.verify_property('{noun}', {test.word})"
            apart = f"distance({patch}, anchor) > -0.5 and "
            return f"{apart}not {condition}" if test.negated else f"{apart}{condition}"
        else:
            condition = _TESTS[test.type].format(p=patch, a="anchor")
        return f"not {condition}" if test.negated else condition

    def one(self, one: One, name: str) -> None:
        """Put one object in the variable ``name``."""
        patches = {"patch": "patches", "anchor": "anchors", "other": "others"}[name]
        if one.anchor is not None:
            self.one(one.anchor, "anchor")
        self.things(one.things, patches)
        if one.pick in SIDES:
            routine, from_end = SORTS[one.pick]
            self.add(f"{patches} = {routine}({patches})")
            self.add(f"{name} = {patches}[{-one.rank if from_end else one.rank - 1}]")
        elif one.pick in EXTENTS:
            choose = "max" if one.pick in ("biggest", "tallest") else "min"
            measure = "area" if one.pick in ("biggest", "smallest") else "height"
            self.add(f"{name} = {choose}({patches}, key=lambda p: p.{measure})")
        elif one.pick == "middle":
            self.add(f"{name} = get_middle_patch({patches})")
        elif one.pick == "farthest":
            self.add(f"{name} = max({patches}, key=lambda p: distance(p, anchor))")
        elif one.pick == "nearest" or _is_loose(one):
            if one.pick == "nearest" and one.things.kind.general:
                self.add(f"{patches} = [p for p in {patches} if distance(p, anchor) > -0.5]")
            self.add(f"{name} = get_patch_closest_to_anchor_object({patches}, anchor)")
        else:
            self.add(f"{name} = {patches}[0]")

    def ask(self, ask: Ask) -> None:
        """Write the lines of the whole question."""
        if ask.one is not None and ask.type != "quantified":
            self.one(ask.one, "patch")
        if ask.other is not None:
            self.one(ask.other, "other")
        if ask.things is not None:
            self.things(ask.things, "patches")
        if ask.others is not None:
            self.things(ask.others, "others")
        getattr(self, f"_{ask.type}", self._combined)(ask)

    def _truth(self, condition: str) -> None:
        self.add(f"return bool_to_yesno({condition})")

    def _combined(self, ask: Ask) -> None:
        self._truth(_COMBINED[ask.type])

    def _refer(self, ask: Ask) -> None:
        self.add("return patch")

    def _which(self, ask: Ask) -> None:
        self.add(
            f"color = patch.simple_query('{ATTRIBUTE_QUESTIONS['color']}')",
            f"shape = patch.simple_query('{ATTRIBUTE_QUESTIONS['shape']}')",
            "return color + ' ' + shape",
        )

    def _attribute(self, ask: Ask) -> None:
        self.add(f"return patch.simple_query('{ATTRIBUTE_QUESTIONS[ask.word]}')")

    def _choose(self, ask: Ask) -> None:
        self.add(f"return patch.best_text_match(['{ask.words[0]}', '{ask.words[1]}'])")

    def _choose_one(self, ask: Ask) -> None:
        assert ask.one is not None and ask.other is not None
        self.add(
            f"if {_COMPARED[ask.word]}:",
            f"    return '{ask.one.things.kind.phrase}'",
            f"return '{ask.other.things.kind.phrase}'",
        )

    def _relate(self, ask: Ask) -> None:
        first, second = ask.words
        to = "image_patch" if ask.other is None else "other"
        condition = _TESTS[first].format(p="patch", a=to)
        self.add(
            f"if {condition}:",
            f"    return '{RELATION_ANSWERS[first]}'",
            f"return '{RELATION_ANSWERS[second]}'",
        )

    def _count(self, ask: Ask) -> None:
        self.add("return str(len(patches))")

    def _sum(self, ask: Ask) -> None:
        self.add("return str(len(patches) + len(others))")

    def _difference(self, ask: Ask) -> None:
        self.add("return str(len(patches) - len(others))")

    def _more_of(self, ask: Ask) -> None:
        assert ask.things is not None and ask.others is not None
        self.add(
            "if len(patches) > len(others):",
            f"    return '{ask.things.kind.phrase}s'",
            f"return '{ask.others.kind.phrase}s'",
        )

    def _distinct(self, ask: Ask) -> None:
        self._answers(ask)
        self.add("return str(len(set(answers)))")

    def _answers(self, ask: Ask) -> None:
        self.add(f"answers = [p.simple_query('{ATTRIBUTE_QUESTIONS[ask.word]}') for p in patches]")

    def _uniform(self, ask: Ask) -> None:
        self._answers(ask)
        self._truth("len(set(answers)) == 1")

    def _varied(self, ask: Ask) -> None:
        self._answers(ask)
        self._truth("len(set(answers)) == len(answers)")

    def _purely(self, ask: Ask) -> None:
        self._only(ask)

    def _exists(self, ask: Ask) -> None:
        self._truth("len(patches) > 0")

    def _absent(self, ask: Ask) -> None:
        self._truth("len(patches) == 0")

    def _bound(self, ask: Ask) -> None:
        self._truth(f"len(patches) {_BOUNDS[ask.word]} {ask.number}")

    def _quantified(self, ask: Ask) -> None:
        assert ask.things is not None and ask.test is not None
        self.anchors(ask.test)
        self.add(f"answers = [{self.holds(ask.test, ask.things.kind.noun)} for p in patches]")
        self._truth(_QUANTIFIED[ask.word].format(number=ask.number))

    def _only(self, ask: Ask) -> None:
        assert ask.things is not None and ask.test is not None
        self.add(f"answers = [{self.holds(ask.test, ask.things.kind.noun)} for p in patches]")
        self._truth(_QUANTIFIED["all"])

    def _verify(self, ask: Ask) -> None:
        assert ask.one is not None and ask.test is not None
        self.anchors(ask.test)
        self._truth(self.holds(ask.test, ask.one.things.kind.noun, "patch"))

    def _pair(self, ask: Ask) -> None:
        assert ask.one is not None and ask.other is not None and ask.test is not None
        first = self.holds(ask.test, ask.one.things.kind.noun, "patch")
        second = self.holds(ask.test, ask.other.things.kind.noun, "other")
        self.add(f"answers = [{first}, {second}]")
        self._truth(_PAIRS[ask.word])

    def _identity(self, ask: Ask) -> None:
        self._truth("distance(patch, other) < -0.5")

    def _compare(self, ask: Ask) -> None:
        self._truth(_COMPARED[ask.word])

    def _same(self, ask: Ask) -> None:
        self._compare_words(ask, "==")

    def _different(self, ask: Ask) -> None:
        self._compare_words(ask, "!=")

    def _compare_words(self, ask: Ask, sign: str) -> None:
        self.add(
            f"first = patch.simple_query('{ATTRIBUTE_QUESTIONS[ask.word]}')",
            f"second = other.simple_query('{ATTRIBUTE_QUESTIONS[ask.word]}')",
        )
        self._truth(f"first {sign} second")


def _is_loose(one: One) -> bool:
    """Return whether a person means the nearest of several: ``the thing behind the cube``."""
    return one.things.kind.general and any(
        test.anchor is not None and test.type not in ("alike", "apart") for test in one.things.tests
    )
