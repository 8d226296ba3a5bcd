"""Which names an API lists for which task."""

from __future__ import annotations

import pytest

from viper.api import REGISTRY, api_set, routine
from viper.api.registry import ALL_TASKS, ANSWER_TASKS
from viper.api.sets import TOOL_SETS, ApiEntry, api_names, split_example, summary_of
from viper.errors import UnknownNameError, UsageError
from viper.schema import DEFAULT_API
from viper.strategies.settings import RunSettings
from viper.tools.models import ROLES


def names(api: str, task: str) -> list[str]:
    return [entry.name for entry in api_set(api).entries(task)]


# Stanić et al. 2024, A.4.1: the prompt of RefCOCO and GQA with ViperGPT's API.
VIPERGPT = {
    *("find", "exists", "verify_property", "compute_depth", "crop", "overlaps_with"),
    *("best_image_match", "distance"),
}
# What A.4.2 adds.
ROUTINES = {
    *("get_patch_left_of", "get_patch_right_of", "get_patch_above_of", "get_patch_below_of"),
    *("get_patch_around_of", "get_middle_patch", "get_patch_closest_to_anchor_object"),
    *("sort_patches_left_to_right", "sort_patches_bottom_to_top", "sort_patches_front_to_back"),
}


@pytest.mark.parametrize("task", ["ground", "question", "statement", "edit", "tag"])
def test_pictures_have_the_lists_of_the_paper_and_no_name_of_ours(task: str) -> None:
    in_words = {"simple_query", "best_text_match"} if task in ANSWER_TASKS else set()
    assert set(names("vipergpt", task)) == VIPERGPT | in_words
    assert set(names("abstract", task)) == VIPERGPT | ROUTINES | in_words


def test_what_is_ours_is_a_set_of_its_own() -> None:
    ours = {"simple_query", "is_on", "is_next_to", "is_between"}
    assert set(names("more", "ground")) == ours
    answers = {"llm_query", "bool_to_yesno", "process_guesses", "coerce_to_numeric"}
    answers |= {"best_description_from_options"}
    assert set(names("more", "question")) == ours - {"simple_query"} | answers
    assert names("more", "choice") == []
    both = set(names("abstract", "question")) | set(names("more", "question"))
    assert set(names(DEFAULT_API, "question")) == both and RunSettings().api == DEFAULT_API


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
