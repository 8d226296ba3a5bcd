"""Outlines, faces and edits: what each tool does to pixels, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from viper.errors import ToolError
from viper.models.media import media_from
from viper.sandbox import Ref
from viper.testing.fakes import FakeDetector, FakeFaces, FakeInpainter, FakeSegmenter
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox

WIDTH, HEIGHT = 100, 60
WHOLE = Ref("image", ("image0", WIDTH, HEIGHT))
LEFT = Ref("patch", ("image0", 0, 0, 50, HEIGHT))
CUP = Ref("patch", ("image0", 10.0, 10.0, 30.0, 40.0, "", "cup"))


def picture() -> np.ndarray:
    """Colours that differ from pixel to pixel."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    return np.stack((columns * 2, rows * 4, 255 - columns * 2), axis=-1).astype(np.uint8)


class Bench:
    def __init__(self, **settings: object) -> None:
        self.segmenter = FakeSegmenter(
            [
                ("cup", (10, 20, 30, 50), 0.9),
                ("bowl", (60, 10, 90, 40), 0.6),
                ("crumb", (40, 1, 44, 5), 0.2),
            ]
        )
        self.inpainter = FakeInpainter()
        models = ModelSet(
            {
                "detector": lambda: FakeDetector({"cup": [((10, 20, 30, 50), 0.9)]}),
                "segmenter": lambda: self.segmenter,
                "inpainter": lambda: self.inpainter,
                "faces": lambda: FakeFaces([((2, 3, 12, 13), 0.8)]),
            }
        )
        thresholds = {"segmenter.threshold": ThresholdSchedule(0.5, 0.1, 0.1)}
        self.toolbox = Toolbox(models, ToolSettings(sensitivities=thresholds, **settings))  # type: ignore[arg-type]

    def session(self, media: object = None) -> ToolSession:
        return self.toolbox.session(media_from(picture() if media is None else media))


def ask(session: ToolSession, name: str, *args: object) -> Ref:
    found: Ref = session.call(name, args, {}, 1)
    return found


def pixels(session: ToolSession, ref: Ref) -> np.ndarray:
    return session.media.pixels(str(ref.fields[0]))


def test_segments_have_outline_and_label_best_first() -> None:
    bench = Bench()
    session = bench.session()
    cup, bowl = session.call("segment", (WHOLE,), {}, 1)
    assert cup.fields[1:5] == (10.0, 10.0, 30.0, 40.0) and cup.fields[6] == "cup"
    assert bowl.fields[6] == "bowl"
    outline = session.media.edits.outline(str(cup.fields[5]))
    assert 0.7 < outline.part.mean() < 0.85  # an ellipse in its box
    call = session.calls[0]
    assert call.judged_by == call.shortened_by == "segmenter.threshold"
    assert call.scores == (0.9, 0.6, 0.2)
    session.call("segment", (LEFT,), {}, 1)
    assert bench.segmenter.encoded == [(HEIGHT, WIDTH, 3)] and session.calls[1].cached


def test_segments_of_a_crop() -> None:
    bench = Bench(find_scope="crop")
    (found,) = bench.session().call("segment", (LEFT,), {}, 1)
    assert bench.segmenter.encoded == [(HEIGHT, 50, 3)]
    assert found.fields[1:5] == (10.0, 10.0, 30.0, 40.0)
    right = Ref("patch", ("image0", 50, 0, 100, HEIGHT))
    (moved,) = bench.session().call("segment", (right,), {}, 1)[:1]
    assert moved.fields[1:5] == (60.0, 10.0, 80.0, 40.0)


def test_faces_are_found_in_the_part() -> None:
    (face,) = (
        Bench().session().call("find_faces", (Ref("patch", ("image0", 50, 0, 100, 50)),), {}, 1)
    )
    assert face.fields == ("image0", 52.0, 37.0, 62.0, 47.0, "", "face")


def test_color_pop_keeps_the_outline_alone() -> None:
    session = Bench().session()
    cup = session.call("segment", (WHOLE,), {}, 1)[0]
    made = ask(session, "color_pop", WHOLE, [cup])
    found, given = pixels(session, made), picture()
    mask = session.media.edits.outline(str(cup.fields[5])).mask()
    assert (found[mask] == given[mask]).all()
    assert (np.ptp(found[~mask].astype(int), axis=1) == 0).all()
    assert not (found[~mask] == given[~mask]).all()


def test_blur_leaves_the_object_as_it_is() -> None:
    session = Bench().session(
        np.where(np.arange(WIDTH)[None, :, None] % 2, 255, 0)
        .repeat(HEIGHT, 0)
        .repeat(3, 2)
        .astype(np.uint8)
    )
    made = pixels(session, ask(session, "blur_background", WHOLE, [CUP]))
    given = session.media.images[0]
    assert (made[20:50, 10:30] == given[20:50, 10:30]).all()
    assert made[:, 60:].std() < given[:, 60:].std() / 4


def test_replace_touches_the_outline_and_its_margin_alone() -> None:
    bench = Bench()
    session = bench.session()
    bench.inpainter.inpaint = lambda *_: np.zeros((HEIGHT, WIDTH, 3), np.uint8)  # type: ignore[method-assign]
    cup = session.call("segment", (WHOLE,), {}, 1)[0]
    found, given = pixels(session, ask(session, "replace", WHOLE, [cup], "a red bowl")), picture()
    mask = session.media.edits.outline(str(cup.fields[5])).mask()
    changed = (found != given).any(axis=2)
    assert changed[mask].all() and not changed[:, 33:].any() and not changed[:18].any()


def test_replace_is_asked_once_for_one_prompt_and_seed() -> None:
    bench = Bench()
    session = bench.session()
    first = ask(session, "replace", WHOLE, [CUP], "a red bowl", 3)
    assert ask(session, "replace", WHOLE, [CUP], "a red bowl", 3) == first
    assert session.calls[1].cached and bench.inpainter.asked == [("a red bowl", 3)]
    assert ask(session, "replace", WHOLE, [CUP], "a blue bowl", 3) != first
    assert ask(bench.session(), "replace", WHOLE, [CUP], "a red bowl", 3) == first
    assert (pixels(session, first)[20:50, 10:30] == (255, 0, 0)).all()


def test_emoji_cover_the_middle_of_each_box() -> None:
    pytest.importorskip("augly")
    session = Bench().session()
    found = pixels(session, ask(session, "put_emoji", WHOLE, [CUP], "Face with-tongue"))
    changed = (found != picture()).any(axis=2)
    assert changed[35, 20] and not changed[:, 40:].any() and not changed[:15].any()
    with pytest.raises(ToolError, match="no emoji is called 'fase'; nearest: "):
        ask(session, "put_emoji", WHOLE, [CUP], "fase")
    with pytest.raises(ToolError, match="no emoji is called '../../x'"):
        ask(session, "put_emoji", WHOLE, [CUP], "../../x")


def test_tags_are_drawn_and_kept() -> None:
    session = Bench().session()
    made = ask(session, "tag", WHOLE, [CUP])
    kept = session.media.edits.picture(str(made.fields[0]))
    assert kept.tags == (("cup", (10.0, 20.0, 30.0, 50.0)),)
    assert (kept.pixels[20, 15] == (255, 64, 160)).all()
    nothing = ask(session, "tag", WHOLE, [])
    assert session.media.edits.picture(str(nothing.fields[0])).tags == ()
    assert (pixels(session, nothing) == picture()).all()


def test_a_part_is_cut_out_and_remembers_where_it_was() -> None:
    session = Bench().session()
    part = Ref("patch", ("image0", 5, 5, 45, 45))
    made = ask(session, "color_pop", part, [CUP])
    assert made.fields[1:] == (40, 40)
    assert (pixels(session, made)[5:35, 5:25] == picture()[20:50, 10:30]).all()
    inner = ask(session, "tag", Ref("patch", (made.fields[0], 10, 0, 40, 40)), [])
    assert session.media.origin(str(inner.fields[0])) == ("image0", 15, 15)


def test_an_edit_is_looked_at_and_changed_like_any_picture() -> None:
    bench = Bench()
    session = bench.session()
    first = ask(session, "color_pop", WHOLE, [CUP])
    found = session.call("find", (first, "cup"), {}, 1)
    assert found[0].fields[0] == first.fields[0]
    second = ask(session, "replace", first, [CUP], "red")
    assert (pixels(session, second)[0] == pixels(session, first)[0]).all()


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("color_pop", (WHOLE, []), "no object to change"),
        ("color_pop", (WHOLE, "cup"), "no object to change"),
        ("color_pop", (WHOLE, [3]), "expected an image patch, got int 3"),
        ("color_pop", (Ref("image", ("edit-00", 1, 1)), [CUP]), "no picture 'edit-00'"),
        ("color_pop", (Ref("patch", ("image0", 5, 5, 5, 9)), [CUP]), "the patch is empty"),
        (
            "color_pop",
            (WHOLE, [Ref("patch", (*CUP.fields[:5], "outline-x", ""))]),
            "no outline 'outline-x'",
        ),
        ("replace", (WHOLE, [CUP], "  "), "prompt must have 1 to"),
        ("replace", (WHOLE, [CUP], "red", -1), "seed must be a whole number"),
    ],
)
def test_what_is_refused(name: str, args: tuple[object, ...], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        Bench().session().call(name, args, {}, 1)


def test_objects_of_another_picture_are_refused() -> None:
    session = Bench().session([picture(), picture()[:40]])
    other = Ref("patch", ("image1", 1, 1, 9, 9))
    with pytest.raises(ToolError, match="a picture of another size"):
        ask(session, "color_pop", WHOLE, [other])
    outline = session.call("segment", (WHOLE,), {}, 1)[0].fields[5]
    with pytest.raises(ToolError, match="the outline is of a picture of another size"):
        forged = Ref("patch", ("image1", 1, 1, 9, 9, outline, ""))
        ask(session, "color_pop", Ref("image", ("image1", WIDTH, 40)), [forged])


def test_a_painting_of_another_size_is_refused() -> None:
    bench = Bench()
    bench.inpainter.inpaint = lambda *_: np.zeros((2, 2, 3), np.uint8)  # type: ignore[method-assign]
    with pytest.raises(ToolError, match="a painting of uint8"):
        ask(bench.session(), "replace", WHOLE, [CUP], "red")
