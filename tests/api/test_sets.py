"""Which names an API lists for which task."""

from __future__ import annotations

import pytest

from viper.api import REGISTRY, api_set, routine
from viper.api.registry import ALL_TASKS
from viper.api.sets import TOOL_SETS, ApiEntry, api_names, split_example, summary_of
from viper.errors import UnknownNameError, UsageError
from viper.tools.models import ROLES


def names(api: str, task: str) -> list[str]:
    return [entry.name for entry in api_set(api).entries(task)]


def test_grounding_does_without_the_language_model() -> None:
    listed = names("abstract", "ground")
    assert "llm_query" not in listed and "best_text_match" not in listed
    assert {
        "find",
        "simple_query",
        "sort_patches_left_to_right",
        "get_patch_left_of",
        "distance",
    } <= set(listed)
    assert set(names("vipergpt", "ground")) < set(listed)


def test_questions_add_to_grounding() -> None:
    assert set(names("abstract", "ground")) < set(names("abstract", "question"))
    assert "select_answer" not in names("abstract", "question")


def test_videos_have_their_own_names() -> None:
    assert names("abstract", "choice") == [
        "trim",
        "get_video_segment_of_event",
        "get_video_segment_before_event",
        "get_video_segment_after_event",
        "caption_video",
        "simple_query",
        "select_answer",
    ]
    plain = names("vipergpt", "choice")
    assert {"find", "frame_from_index", "select_answer"} <= set(plain)
    assert not any("event" in name for name in plain)


def test_a_combination_is_the_union_in_one_order() -> None:
    both = api_set("abstract+vipergpt").entries("choice")
    assert both == api_set("vipergpt + abstract").entries("choice")
    assert set(both) == {
        *api_set("vipergpt").entries("choice"),
        *api_set("abstract").entries("choice"),
    }


@pytest.mark.parametrize("task", ["ground", "question", "choice", "statement", "edit", "tag"])
def test_summaries_are_short_and_distinct(task: str) -> None:
    entries = api_set("abstract+vipergpt+dwim").entries(task)
    summaries = [entry.summary for entry in entries]
    assert len(set(summaries)) == len(summaries)
    assert all(3 <= len(summary.split()) <= 8 for summary in summaries)


def test_every_listed_name_has_a_worked_example() -> None:
    for task in ("ground", "question", "choice"):
        for entry in api_set("abstract+vipergpt").entries(task):
            assert entry.example.startswith("# "), entry.name
            compile(entry.example, entry.name, "exec")
            assert f"{entry.name}(" in entry.example


def test_tool_sets_of_dwim_list_what_its_table_has() -> None:
    listed = {
        name: {entry.name for entry in api_set(name).entries("question")} for name in TOOL_SETS
    }
    assert all(listed[name] == set(names) for name, names in TOOL_SETS.items())
    everywhere = set.intersection(*listed.values())
    assert everywhere == listed["dwim-ccq"]
    beyond = {name: names - everywhere for name, names in listed.items()}
    assert beyond == {
        "dwim-vcr": {"bool_to_yesno", "best_description_from_options"},
        "dwim-ekvqa": {"complex_query", "llm_query"},
        "dwim-vlcu": {"bool_to_yesno"},
        "dwim-vasa": {"complex_query", "bool_to_yesno"},
        "dwim-gd": {"best_description_from_options"},
        "dwim-ccq": set(),
    }
    owners = {entry.owner for entry in api_set("dwim-ekvqa").entries("question")}
    assert owners == {"ImagePatch"}


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="unknown API 'visprg'; known: abstract, dwim"):
        api_set("abstract+visprg")
    with pytest.raises(UnknownNameError, match="unknown task 'grund'"):
        api_set("abstract").entries("grund")
    with pytest.raises(UsageError, match="resolve the task first"):
        api_set("abstract").entries("auto")


def test_a_registered_routine_makes_an_api_of_its_own() -> None:
    with REGISTRY.temporary():

        @routine(tasks=("ground",), api="mine")
        def twice(number: float) -> float:
            """Double a number.

            Example:
                # six
                def execute_command(image):
                    return twice(3)
            """
            return 2 * number

        (entry,) = api_set("mine").entries("ground")
        assert isinstance(entry, ApiEntry)
        assert (entry.name, entry.owner, entry.summary) == ("twice", None, "double a number")
        assert (entry.returns, entry.arguments) == ("float", "number")
        assert entry.docstring == "Double a number."
        assert names("vipergpt+mine", "ground")[-1] == "twice"
    assert "mine" not in api_names()


def test_docstring_parts() -> None:
    assert summary_of("Find all.\n\nMore.") == "find all"
    assert summary_of("") == ""
    assert split_example("One.\n\nTwo.") == ("One.\n\nTwo.", "")
    assert split_example("One.\n\nExample:\n    a\n      b") == ("One.", "a\n  b")


def test_names_need_roles_that_profiles_have() -> None:
    apis = "+".join(sorted(api_names()))
    entries = {each for task in ALL_TASKS for each in api_set(apis).entries(task)}
    assert {each.needs for each in entries} <= {"", *ROLES}
    needs = {(each.owner, each.name): each.needs for each in entries}
    assert needs["ImagePatch", "find"] == "detector"
    assert needs["ImagePatch", "simple_query"] == "vqa"
    assert needs["VideoSegment", "simple_query"] == "video"
    assert needs[None, "is_on"] == needs["ImagePatch", "compute_depth"] == "depth"
    assert needs[None, "REPLACE"] == "inpainter" and needs[None, "distance"] == ""
