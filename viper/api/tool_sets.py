"""API sets of DWIM's tasks: a few names each, whatever else the task could use.

``dwim-gd`` and its like are given where an API is named (``--api dwim-gd``). Their names are the
abbreviations of the source, of which only the supplement was at hand.

Source: DWIM (2025), supplement, table 9, and prompt 15.2 for the methods behind its rows. Ours:
``crop`` beside the four crops at a box; "Boolean to Yes/No" is ``bool_to_yesno``.
"""

from __future__ import annotations

from collections.abc import Mapping

DETECTOR = frozenset({"find"})
EXISTENCE = frozenset({"exists"})
SIMPLE_QUERY = frozenset({"simple_query"})
COMPLEX_QUERY = frozenset({"complex_query"})
CAPTIONING = frozenset({"caption"})
EXTERNAL_KNOWLEDGE = frozenset({"llm_query"})
YES_NO = frozenset({"bool_to_yesno"})
CROPS = frozenset(
    ("crop", "crop_left_of_bbox", "crop_right_of_bbox", "crop_below_bbox", "crop_above_bbox")
)
PROPERTY_MATCHING = frozenset({"best_description_from_options"})
PROPERTY_VERIFYING = frozenset({"verify_property"})

_EVERYWHERE = DETECTOR | EXISTENCE | SIMPLE_QUERY | CAPTIONING | CROPS | PROPERTY_VERIFYING

TOOL_SETS: Mapping[str, frozenset[str]] = {
    "dwim-vcr": _EVERYWHERE | YES_NO | PROPERTY_MATCHING,
    "dwim-ekvqa": _EVERYWHERE | COMPLEX_QUERY | EXTERNAL_KNOWLEDGE,
    "dwim-vlcu": _EVERYWHERE | YES_NO,
    "dwim-vasa": _EVERYWHERE | COMPLEX_QUERY | YES_NO,
    "dwim-gd": _EVERYWHERE | PROPERTY_MATCHING,
    "dwim-ccq": _EVERYWHERE,
}
"""Set to the names that it lists, of methods of ``ImagePatch`` and of functions."""
