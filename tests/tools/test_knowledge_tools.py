"""Reading, image search and text search as programs call them, with providers that fail too."""

from __future__ import annotations

import numpy as np
import pytest

from viper.errors import ModelError, ToolError, ViperError
from viper.models.media import media_from
from viper.models.vision.roles import TextLine
from viper.sandbox import Ref
from viper.search.findings import Entity, Passage, SimilarPicture, TextFindings
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox

WIDTH, HEIGHT = 100, 60
WHOLE = Ref("image", ("image0", WIDTH, HEIGHT))
LEFT = Ref("patch", ("image0", 0, 0, 30, 30))
NOWHERE = Ref("patch", ("image0", 5, 5, 5, 5))


class Reader:
    model_id = "reader"

    def __init__(self, lines=()):
        self.lines, self.seen = list(lines), []

    def read(self, pixels):
        self.seen.append(pixels.shape)
        return self.lines


class Pictures:
    model_id = name = "pictures"

    def __init__(self):
        self.seen = []

    def similar(self, pixels, limit):
        self.seen.append((pixels.shape, limit))
        return [
            SimilarPicture("a", 0.9, "a red lamp", "Lamps", (Entity("Velora", "a lamp"),), True),
            SimilarPicture("b", 0.8, "", "Lamps", (Entity("Velora", "a lamp"), Entity("Ro"))),
            SimilarPicture("c", 0.7, "a blue lamp"),
        ]


class Texts:
    model_id = name = "texts"

    def __init__(self, found=None, fails=None):
        self.found, self.fails, self.asked = found, fails, []

    def search(self, query, limit):
        self.asked.append((query, limit))
        if self.fails is not None:
            raise self.fails
        return self.found


def session(thresholds=None, **backends) -> ToolSession:
    models = ModelSet({role: (lambda one=one: one) for role, one in backends.items()})
    known = {name: ThresholdSchedule(value, 0.1, 0.1) for name, value in (thresholds or {}).items()}
    settings = ToolSettings(sensitivities=known, crop_margin=0.1, crop_shape="square")
    return Toolbox(models, settings).session(media_from(picture()))


def picture():
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    return np.stack((columns * 2, rows * 4, 255 - columns * 2), axis=-1).astype(np.uint8)


def line(text, x, y):
    return TextLine(text, (x, y, x + 9, y + 5), 0.9)


def test_lines_are_read_from_top_to_bottom_and_left_to_right():
    reader = Reader([line("below", 0, 40), line("right", 50, 11), line("left", 5, 9)])
    asked = session(ocr=reader)
    assert asked.call("ocr", (WHOLE,), {}, 1) == "left\nright\nbelow"
    assert asked.call("ocr", (WHOLE,), {}, 2) == "left\nright\nbelow" and len(reader.seen) == 1
    assert asked.calls[1].cached and not asked.calls[0].cached


def test_small_parts_are_enlarged_before_they_are_read():
    reader = Reader()
    asked = session(ocr=reader)
    assert asked.call("ocr", (LEFT,), {}, 1) == "" and reader.seen == [(108, 108, 3)], (
        "with its margin of 6 pixels"
    )
    assert asked.call("ocr", (NOWHERE,), {}, 1) == "" and len(reader.seen) == 1


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ("entities", ["Velora: a lamp", "Ro"]),
        ("captions", ["a red lamp", "a blue lamp"]),
        ("identical", ["a red lamp"]),
        ("titles", ["Lamps"]),
    ],
)
def test_each_kind_of_knowledge_about_similar_pictures_by_itself(about, told):
    pictures = Pictures()
    asked = session(image_search=pictures)
    assert asked.call("image_search", (WHOLE, about), {}, 1) == told
    assert asked.call("image_search", (WHOLE, "titles"), {}, 1) == ["Lamps"]
    assert pictures.seen == [((HEIGHT, WIDTH, 3), 10)], "one search serves all kinds"


def test_a_part_is_searched_as_the_matcher_is_shown_objects():
    pictures = Pictures()
    asked = session(image_search=pictures)
    asked.call("image_search", (LEFT,), {}, 1)
    assert pictures.seen[0][0] == (42, 42, 3)
    assert asked.call("image_search", (NOWHERE,), {}, 1) == []
    with pytest.raises(ToolError, match="about must be one of entities"):
        asked.call("image_search", (WHOLE, "prices"), {}, 1)


def test_pictures_that_are_too_little_alike_are_left_out_and_the_threshold_is_blamed():
    asked = session({"image_search.threshold": 0.75}, image_search=Pictures())
    assert asked.call("image_search", (WHOLE, "captions"), {}, 1) == ["a red lamp"]
    assert asked.calls[0].shortened_by == "image_search.threshold"
    assert asked.calls[0].scores == (0.9, 0.8, 0.7)
    asked.thresholds["image_search.threshold"] = 0.95
    assert asked.call("image_search", (WHOLE, "captions"), {}, 2) == ["a red lamp"], "the same"
    assert asked.calls[1].rejected_by == "image_search.threshold"


def test_passages_follow_a_direct_answer():
    passages = (Passage("Tarnix", "Founded in 1893."), Passage("", "No title."))
    texts = Texts(TextFindings(passages, "1893"))
    asked = session(text_search=texts)
    told = ["1893", "Tarnix: Founded in 1893.", "No title."]
    assert asked.call("text_search", (" when? ",), {}, 1) == told
    assert texts.asked == [("when?", 10)]
    assert session(text_search=Texts(TextFindings())).call("text_search", ("x",), {}, 1) == []


@pytest.mark.parametrize("query", ["", "  ", 5, "x" * 20_000])
def test_what_is_no_query_is_refused(query):
    with pytest.raises(ToolError, match="query must"):
        session(text_search=Texts()).call("text_search", (query,), {}, 1)


def test_a_provider_that_fails_is_named_and_asked_again_next_time():
    texts = Texts(fails=ModelError("search.example: no complete answer"))
    asked = session(text_search=texts)
    with pytest.raises(ViperError, match=r"search.example: no complete answer"):
        asked.call("text_search", ("x",), {}, 1)
    assert asked.calls[0].error == "search.example: no complete answer"
    texts.fails, texts.found = None, TextFindings()
    assert asked.call("text_search", ("x",), {}, 1) == []


def test_roles_that_nobody_plays_are_said_so():
    for name, arguments in (("ocr", (WHOLE,)), ("image_search", (WHOLE,)), ("text_search", ("x",))):
        with pytest.raises(ViperError, match=name):
            session().call(name, arguments, {}, 1)
