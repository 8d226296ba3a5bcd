"""Comments before calls, and made-up names."""

from __future__ import annotations

from dataclasses import dataclass

from viper_lab.world.queries.annotate import annotate, rename, strip_comments


@dataclass(frozen=True)
class _Entry:
    name: str
    owner: str | None
    summary: str


ENTRIES = (
    _Entry("find", "ImagePatch", "find all objects of a name"),
    _Entry("simple_query", "ImagePatch", "ask a question about the patch"),
    _Entry("simple_query", "VideoSegment", "ask a question about the video"),
    _Entry("distance", None, "gap between two patches"),
    _Entry("bool_to_yesno", None, "turn a truth value into yes or no"),
)

PROGRAM = """def execute_command(image):
    patches = image_patch.find('distance')
    if patches:
        return bool_to_yesno(patches[0].simple_query('find') == 'x')
    return video_segment.simple_query('what?')"""

ANNOTATED = """def execute_command(image):
    # find all objects of a name: find
    patches = image_patch.find('distance')
    if patches:
        # turn a truth value into yes or no: bool_to_yesno
        # ask a question about the patch: simple_query
        return bool_to_yesno(patches[0].simple_query('find') == 'x')
    # ask a question about the video: simple_query
    return video_segment.simple_query('what?')"""


def test_one_comment_a_call_in_order_with_indentation() -> None:
    assert annotate(PROGRAM, ENTRIES) == ANNOTATED
    assert strip_comments(ANNOTATED) == PROGRAM


def test_names_that_are_not_listed_get_no_comment() -> None:
    assert annotate(PROGRAM, ()) == PROGRAM


def test_rename_leaves_words_alone() -> None:
    text = "\n".join(
        [
            "# find all objects of a name: find(object_name)",
            "# task: ground",
            "# query: find the distance",
            ANNOTATED,
        ]
    )
    renamed = rename(text, {"find": "glorp", "distance": "murf"})
    assert renamed.splitlines()[:3] == [
        "# find all objects of a name: glorp(object_name)",
        "# task: ground",
        "# query: find the distance",
    ]
    assert "    # find all objects of a name: glorp\n" in renamed
    assert "image_patch.glorp('distance')" in renamed
    assert "simple_query('find')" in renamed
