"""The wordings of questions about a clip."""

from __future__ import annotations

from collections.abc import Mapping

from viper_lab.world.queries.wording import Templates

TEMPLATES: Mapping[str, Templates] = {
    "do_after": Templates(
        (
            "what does {x} do after {e}?",
            "after {f} what does {x} do?",
            "tell me what {x} does after {e}",
            "what is it that {x} does after {e}?",
        ),
        ("after {f} tell me what {x} does", "can you tell me what {x} does after {e}?"),
        (
            "can you say what {x} does after {e}?",
            "after {f} {x} does what?",
            "say what {x} does after {e}",
            "i want to know what {x} does after {e}",
            "what does {x} do once {f}?",
            "after {f} say what {x} does",
            "what is {x} doing after {e}?",
            "right after {f} what does {x} do?",
        ),
    ),
    "do_before": Templates(
        (
            "what does {x} do before {e}?",
            "before {f} what does {x} do?",
            "tell me what {x} does before {e}",
            "what is it that {x} does before {e}?",
        ),
        ("before {f} tell me what {x} does", "can you tell me what {x} does before {e}?"),
        (
            "can you say what {x} does before {e}?",
            "before {f} {x} does what?",
            "say what {x} does before {e}",
            "i want to know what {x} does before {e}",
            "before {f} say what {x} does",
            "what is {x} doing before {e}?",
            "right before {f} what does {x} do?",
        ),
    ),
    "do_first": Templates(
        (
            "what does {x} do first?",
            "what is the first thing that {x} does?",
            "can you tell me what {x} does first?",
            "first of all what does {x} do?",
        ),
        ("tell me what {x} does first", "tell me the first thing that {x} does"),
        (
            "say what {x} does first",
            "what is it that {x} does first?",
            "i want to know what {x} does first",
            "can you say what {x} does first?",
            "what thing does {x} do first?",
            "the first thing that {x} does?",
            "{x} does what first?",
            "at first what does {x} do?",
        ),
    ),
    "do_last": Templates(
        (
            "what does {x} do last?",
            "what is the last thing that {x} does?",
            "can you tell me what {x} does last?",
            "last of all what does {x} do?",
        ),
        ("tell me what {x} does last", "tell me the last thing that {x} does"),
        (
            "say what {x} does last",
            "what is it that {x} does last?",
            "i want to know what {x} does last",
            "can you say what {x} does last?",
            "what thing does {x} do last?",
            "the last thing that {x} does?",
            "{x} does what last?",
            "in the end what does {x} do?",
        ),
    ),
    "happens_first": Templates(
        (
            "what happens first?",
            "what is the first thing that happens?",
            "can you tell me what happens first?",
            "first of all what happens?",
            "which event is first?",
        ),
        ("tell me what happens first", "tell me the first thing that happens"),
        (
            "say what happens first",
            "i want to know what happens first",
            "what is it that happens first?",
            "can you say what happens first?",
            "what event happens first?",
            "the first thing that happens?",
            "at first what happens?",
            "what is the first event?",
        ),
    ),
    "happens_last": Templates(
        (
            "what happens last?",
            "what is the last thing that happens?",
            "can you tell me what happens last?",
            "last of all what happens?",
            "which event is last?",
        ),
        ("tell me what happens last", "tell me the last thing that happens"),
        (
            "say what happens last",
            "i want to know what happens last",
            "what is it that happens last?",
            "can you say what happens last?",
            "what event happens last?",
            "the last thing that happens?",
            "in the end what happens?",
            "what is the last event?",
        ),
    ),
    "happens_after": Templates(
        (
            "what happens right after {f}?",
            "right after {f} what happens?",
            "what is it that happens right after {f}?",
            "which event is right after {f}?",
        ),
        ("tell me what happens right after {f}", "can you tell me what happens right after {f}?"),
        (
            "say what happens right after {f}",
            "i want to know what happens right after {f}",
            "can you say what happens right after {f}?",
            "right after {f} which event is it?",
            "what event happens right after {f}?",
            "right after {f} say what happens",
        ),
    ),
    "happens_before": Templates(
        (
            "what happens right before {f}?",
            "right before {f} what happens?",
            "what is it that happens right before {f}?",
            "which event is right before {f}?",
        ),
        ("tell me what happens right before {f}", "can you tell me what happens right before {f}?"),
        (
            "say what happens right before {f}",
            "i want to know what happens right before {f}",
            "can you say what happens right before {f}?",
            "right before {f} which event is it?",
            "what event happens right before {f}?",
            "right before {f} say what happens",
        ),
    ),
    "which_first": Templates(
        (
            "which object {v} first?",
            "what {v} first?",
            "what is the first thing that {v}?",
            "can you tell me which object {v} first?",
        ),
        ("tell me what {v} first", "tell me the first thing that {v}"),
        (
            "say what {v} first",
            "what is it that {v} first?",
            "which is the first object that {v}?",
            "tell me which object {v} first",
            "i want to know what {v} first",
            "the first thing that {v}?",
            "of all objects which {v} first?",
            "can you say what {v} first?",
        ),
    ),
    "which_last": Templates(
        (
            "which object {v} last?",
            "what {v} last?",
            "what is the last thing that {v}?",
            "can you tell me which object {v} last?",
        ),
        ("tell me what {v} last", "tell me the last thing that {v}"),
        (
            "say what {v} last",
            "what is it that {v} last?",
            "which is the last object that {v}?",
            "tell me which object {v} last",
            "i want to know what {v} last",
            "the last thing that {v}?",
            "of all objects which {v} last?",
            "can you say what {v} last?",
        ),
    ),
    "which_after": Templates(
        (
            "which object {v} after {f}?",
            "what {v} after {f}?",
            "after {f} which object {v}?",
            "what is it that {v} after {f}?",
        ),
        ("tell me which object {v} after {f}", "after {f} what {v}?"),
        (
            "say which object {v} after {f}",
            "which is the object that {v} after {f}?",
            "after {f} which is the object that {v}?",
            "after {f} what is it that {v}?",
            "i want to know what {v} after {f}",
            "tell me what {v} after {f}",
        ),
    ),
    "which_before": Templates(
        (
            "which object {v} before {f}?",
            "what {v} before {f}?",
            "before {f} which object {v}?",
            "what is it that {v} before {f}?",
        ),
        ("tell me which object {v} before {f}", "before {f} what {v}?"),
        (
            "say which object {v} before {f}",
            "which is the object that {v} before {f}?",
            "before {f} which is the object that {v}?",
            "before {f} what is it that {v}?",
            "i want to know what {v} before {f}",
            "tell me what {v} before {f}",
        ),
    ),
    "what_hit": Templates(
        (
            "what does {x} hit?",
            "which object does {x} hit?",
            "what is it that {x} hits?",
            "tell me what {x} hits",
        ),
        ("tell me which object {x} hits", "can you tell me what {x} hits?"),
        (
            "say what {x} hits",
            "which is the object that {x} hits?",
            "i want to know what {x} hits",
            "can you say what {x} hits?",
            "{x} hits what?",
            "what thing does {x} hit?",
        ),
    ),
    "who_hits": Templates(
        (
            "what hits {x}?",
            "which object hits {x}?",
            "what is it that hits {x}?",
            "tell me what hits {x}",
        ),
        ("tell me which object hits {x}", "can you tell me what hits {x}?"),
        (
            "say what hits {x}",
            "which is the object that hits {x}?",
            "i want to know what hits {x}",
            "can you say what hits {x}?",
            "what thing hits {x}?",
        ),
    ),
}
