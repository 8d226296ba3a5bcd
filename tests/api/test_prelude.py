"""The names the child gets, what programs may read, and references on the wire."""

from __future__ import annotations

import pytest

from tests.api.scripted import ScriptedClient
from viper.api import REGISTRY, ImageHandle, ImagePatch, VideoHandle, VideoSegment, prelude, routine
from viper.sandbox.wire import Ref

NAMES_OF_BOTH_PAPERS = """
    ImagePatch VideoSegment best_image_match distance bool_to_yesno bool_to_yn llm_query
    select_answer process_guesses coerce_to_numeric get_patch_left_of get_patch_right_of
    get_patch_above_of get_patch_below_of get_patch_around_of get_middle_patch
    get_patch_closest_to_anchor_object is_on is_next_to is_between
    sort_patches_left_to_right sort_patches_bottom_to_top
    sort_patches_front_to_back best_description_from_options
"""

MODULES = """
    LOC VQA SEG SELECT CLASSIFY REPLACE FACEDET LIST EVAL RESULT COUNT CROP CROP_LEFTOF
    CROP_RIGHTOF CROP_ABOVE CROP_BELOW CROP_FRONTOF CROP_INFRONT CROP_INFRONTOF CROP_BEHIND
    CROP_AHEAD CROP_AHEADOF COLORPOP BGBLUR EMOJI TAG
"""

KNOWLEDGE = "ocr image_search text_search find_like"

DOCUMENTS = " lines find_text value_right_of value_below dates amounts sums "

TRACKS = " patch_at speed crosses count_crossings enters dwell "

PIXELS = """
    enlarge rotate flip contrast grayscale blur edges threshold threshold_color difference overlay
    frame_difference components contours histogram mean_color measure color_at line_profile
    pixel_count
    draw_boxes draw_lines draw_points draw_grid side_by_side show to_array to_patch
"""


def test_the_sandbox_imports_it_by_name() -> None:
    assert prelude.PRELUDE.module == "viper.api.prelude" and not prelude.PRELUDE.config


def test_every_name_is_there(client: ScriptedClient) -> None:
    assert set(prelude.names(client, {})) == set(
        (NAMES_OF_BOTH_PAPERS + MODULES + KNOWLEDGE + DOCUMENTS + TRACKS + PIXELS).split()
    )


def test_a_program_in_the_papers_style(client: ScriptedClient, image: ImageHandle) -> None:
    names = prelude.names(client, {})
    sizeless = ImageHandle("image0", 0, 0, client)
    cups = [ImagePatch._at(sizeless, x, 0, x + 10, 10) for x in (40, 10)]
    client.will("find", cups, [ImagePatch._at(sizeless, 100, 50, 120, 60)])
    client.will("best_image_match", 1)
    program = """
def execute_command(image):
    image_patch = ImagePatch(image)
    cup_patches = sort_patches_left_to_right(image_patch.find("cup"))
    shelf_patch = image_patch.find("shelf")[0]
    cup_patches.sort(key=lambda cup: distance(cup, shelf_patch))
    nearest = get_patch_closest_to_anchor_object(cup_patches, shelf_patch)
    chosen = best_image_match(cup_patches, ["red cup"])
    assert isinstance(chosen, ImagePatch)
    return nearest, chosen, get_patch_left_of(nearest)
"""
    exec(program, names)  # our own text, in a test
    nearest, chosen, strip = names["execute_command"](image)
    assert (nearest.left, chosen.left) == (40, 10)
    assert (strip.left, strip.right, strip.upper) == (0, 40, 100)


def test_every_public_attribute_is_readable_or_kept_back() -> None:
    kept_back = {VideoSegment: {"frame_handle"}, ImageHandle: {"id", "call"}}
    kept_back[VideoHandle] = {"id", "call", "frame_handle"}
    for owner, readable in prelude.READABLE.items():
        public = {name for name in dir(owner) if not name.startswith("_")}
        public |= set(getattr(owner, "__dataclass_fields__", ()))
        assert readable == public - kept_back.get(owner, set()), owner
        assert not any(name.startswith("_") for name in readable)


def test_references_there_and_back(
    client: ScriptedClient, image: ImageHandle, video: VideoHandle
) -> None:
    objects = (image, video, ImagePatch(image, 1, 2, 3, 4.5), VideoSegment(video, 3, 9))
    references = [prelude.encode(obj) for obj in objects]
    assert references == [
        Ref("image", ("image0", 200, 100)),
        Ref("video", ("video0", 32, 160, 120)),
        Ref("patch", ("image0", 1, 2, 3, 4.5)),
        Ref("segment", ("video0", 3, 9)),
    ]
    assert [prelude.decode(ref, client) for ref in references if ref] == list(objects)
    frame = ImagePatch(VideoSegment(video), 3)
    assert prelude.encode(frame) == Ref("patch", ("video0#3", 0, 0, 160, 120))


def test_only_our_own_types_become_references(image: ImageHandle) -> None:
    class Lookalike(ImagePatch):
        pass

    assert prelude.encode(Lookalike(image)) is None
    assert prelude.encode({"kind": "patch"}) is None
    with pytest.raises(ValueError, match="unknown kind of reference: 'mask'"):
        prelude.decode(Ref("mask", ()), lambda name, *args, **kwargs: None)


def test_a_tool_routine_runs_in_the_parent(client: ScriptedClient, video: VideoHandle) -> None:
    with REGISTRY.temporary():

        @routine(tasks=("ground",), tool=True)
        def shadows(patch: ImagePatch) -> list[ImagePatch]:
            """Shadows of a patch."""
            raise AssertionError("must not run in the child")

        names = prelude.names(client, {"tools": ["widest_part"]})
    frame = ImagePatch(video, 3)
    sizeless = ImageHandle("video0#3", 0, 0, client)
    client.will("shadows", [ImagePatch._at(sizeless, 1, 2, 3, 4)])
    client.will("widest_part", (ImagePatch._at(sizeless, 1, 2, 3, 4), 0.5))
    (shadow,) = names["shadows"](frame)
    assert shadow._whole_image() == frame
    part, share = names["widest_part"](segment=VideoSegment(video))
    assert part._whole_image() == frame and share == 0.5


def test_a_missing_argument_names_the_routine(client: ScriptedClient) -> None:
    names = prelude.names(client, {})
    with pytest.raises(TypeError, match="best_image_match"):
        names["best_image_match"]()
