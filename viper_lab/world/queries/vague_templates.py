"""The wordings of vague queries: none says what the habits of its data set decide."""

from __future__ import annotations

from collections.abc import Mapping

from viper_lab.world.queries.wording import Templates

SELECTION_TEMPLATES: Mapping[str, Templates] = {
    "counted": Templates(
        (
            "the {nth} {k}",
            "the {nth} of the {ks}",
            "the {k} that comes {nth}",
            "the {nth} one of the {ks}",
        ),
        ("the {nth} {k} in the picture", "the one of the {ks} that comes {nth}"),
        (
            "the {k} that is {nth}",
            "of the {ks} the {nth} one",
            "the {nth} {k} you see",
            "the {k} which comes {nth}",
            "the {nth} of all the {ks}",
            "the {k} which is {nth}",
        ),
    ),
    "last": Templates(
        ("the last {k}", "the last of the {ks}", "the {k} that comes last"),
        ("the last one of the {ks}", "the last {k} in the picture"),
        (
            "of the {ks} the last one",
            "the {k} that is last",
            "the last of all the {ks}",
            "the {k} which comes last",
            "the last {k} you see",
        ),
    ),
    "any": Templates(
        ("{ak}", "one of the {ks}", "any of the {ks}", "some {k}"),
        ("any {k}", "one {k}"),
        ("{ak} you see", "any one of the {ks}", "some one of the {ks}", "one of all the {ks}"),
    ),
    "large": Templates(
        ("the {large} {k}", "the {large} one of the {ks}", "the {k} that is {large}"),
        ("the {large} of the {ks}", "the {large} {k} in the picture"),
        (
            "the {k} which is {large}",
            "of the {ks} the {large} one",
            "the {large} {k} you see",
            "the {k} that looks {large}",
        ),
    ),
}
"""Phrases for one object; ``before`` and ``after`` are worded as other regions are."""

RELATION_WORDS: Mapping[str, tuple[str, ...]] = {
    "before": ("before", "ahead of"),
    "after": ("after", "past"),
}

LARGE_WORDS: Mapping[str, tuple[str, ...]] = {
    "biggest": ("large",),
    "smallest": ("little",),
}

QUESTION_TEMPLATES: Mapping[str, Templates] = {
    "looks": Templates(
        (
            "what does {np} look like?",
            "how does {np} look?",
            "describe {np}",
            "what is {np} like?",
        ),
        ("tell me what {np} looks like", "can you describe {np}?"),
        (
            "tell me how {np} looks",
            "can you say what {np} is like?",
            "i want to know what {np} looks like",
            "{np} what does it look like?",
            "please describe {np}",
            "say what {np} looks like",
        ),
    ),
    "several": Templates(
        (
            "are there several {ks}?",
            "do you see several {ks}?",
            "tell me if there are several {ks}",
            "is it true that there are several {ks}?",
        ),
        ("are several {ks} there?", "tell me if you see several {ks}"),
        (
            "can you see several {ks}?",
            "say if there are several {ks}",
            "i want to know if there are several {ks}",
            "several {ks} are there?",
        ),
    ),
    "comes_first": Templates(
        (
            "which comes first {a} or {b}?",
            "what comes first {a} or {b}?",
            "{a} or {b} which comes first?",
            "tell me which comes first {a} or {b}",
        ),
        ("which is first {a} or {b}?", "can you tell me which comes first {a} or {b}?"),
        (
            "of {a} and {b} which comes first?",
            "say which comes first {a} or {b}",
            "{a} or {b} what comes first?",
            "which one comes first {a} or {b}?",
            "i want to know which comes first {a} or {b}",
        ),
    ),
}

CLIP_TEMPLATES: Mapping[str, Templates] = {
    "do": Templates(
        (
            "what does {x} do?",
            "tell me what {x} does",
            "what is it that {x} does?",
            "can you tell me what {x} does?",
        ),
        ("what is the thing that {x} does?", "do tell me what {x} does"),
        ("say what {x} does", "i want to know what {x} does", "{x} does what?"),
    ),
    "happens": Templates(
        ("what happens?", "tell me what happens", "can you tell me what happens?"),
        ("what is it that happens?",),
        ("say what happens", "i want to know what happens", "which event is it?"),
    ),
    "which": Templates(
        ("which object {v}?", "what {v}?", "what is it that {v}?", "tell me which object {v}"),
        ("tell me what {v}", "can you tell me which object {v}?"),
        ("say what {v}", "which is the object that {v}?", "i want to know what {v}"),
    ),
    "do_when": Templates(
        (
            "what does {x} do when {f}?",
            "when {f} what does {x} do?",
            "tell me what {x} does when {f}",
            "what is it that {x} does when {f}?",
        ),
        ("when {f} tell me what {x} does", "can you tell me what {x} does when {f}?"),
        (
            "say what {x} does when {f}",
            "i want to know what {x} does when {f}",
            "when {f} {x} does what?",
            "when {f} say what {x} does",
        ),
    ),
    "happens_when": Templates(
        (
            "what happens when {f}?",
            "when {f} what happens?",
            "tell me what happens when {f}",
            "which event is it when {f}?",
        ),
        ("can you tell me what happens when {f}?", "what is it that happens when {f}?"),
        ("say what happens when {f}", "i want to know what happens when {f}"),
    ),
    "meets": Templates(
        ("what does {x} meet?", "which object does {x} meet?", "tell me what {x} meets"),
        ("tell me which object {x} meets", "can you tell me what {x} meets?"),
        ("say what {x} meets", "{x} meets what?", "i want to know what {x} meets"),
    ),
}
