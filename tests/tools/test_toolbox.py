"""The toolbox: what each tool answers, what is kept, what a threshold does."""

import threading

import numpy as np
import pytest

from viper.errors import CancelledError, ToolError
from viper.models.llm.protocol import Payer
from viper.models.media import media_from
from viper.models.vision.roles import Detections
from viper.models.vision.vocabulary import UnknownPhraseError, Vocabulary
from viper.sandbox import Ref
from viper.testing.fakes import (
    FakeAnswerer,
    FakeDepth,
    FakeDetector,
    FakeLanguage,
    FakeMatcher,
    FakeVideoModel,
)
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox

WIDTH, HEIGHT = 100, 60
WHOLE = Ref("image", ("image0", WIDTH, HEIGHT))
VIDEO = Ref("video", ("video0", 8, WIDTH, HEIGHT))


def picture() -> np.ndarray:
    """Left half red, right half blue."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:, :50, 0] = 255
    pixels[:, 50:, 2] = 255
    return pixels


class Bench:
    """A toolbox on fake models, and sessions of it."""

    def __init__(self, **settings: object) -> None:
        self.detector = FakeDetector(
            {
                "cube": [((10, 40, 20, 50), 0.9), ((70, 5, 90, 25), 0.5)],
                "ball": [((1, 1, 5, 5), 0.2)],
            }
        )
        self.matcher, self.depth = FakeMatcher(), FakeDepth()
        self.vqa = FakeAnswerer({"what color is this?": "red"})
        self.video = FakeVideoModel({"the cube stops": (2, 4, 0.8), "the ball falls": (5, 7, 0.2)})
        loaders = {
            "detector": lambda: self.detector,
            "matcher": lambda: self.matcher,
            "depth": lambda: self.depth,
            "vqa": lambda: self.vqa,
            "video": lambda: self.video,
            "text": FakeLanguage,
        }
        sensitivities = {
            "detector.threshold": ThresholdSchedule(0.4, 0.1, 0.1),
            "matcher.threshold": ThresholdSchedule(0.5, 0.1, 0.1),
            "video.threshold": ThresholdSchedule(0.3, 0.1, 0.1),
        }
        families = (("red", "green", "blue"),)
        values = {
            "sensitivities": sensitivities,
            "attribute_families": families,
            "crop_margin": 0.0,
            "crop_shape": "square",
            **settings,
        }
        self.toolbox = Toolbox(ModelSet(loaders), ToolSettings(**values))

    def session(self, media: object = None, **given: object) -> ToolSession:
        return self.toolbox.session(media_from(picture() if media is None else media), **given)


def ask(session: ToolSession, name: str, *args: object, **kwargs: object) -> object:
    return session.call(name, args, kwargs, 1)


def test_the_matcher_lowers_what_it_takes_for_something_else() -> None:
    bench = Bench(find_check="detector+matcher")
    boxes = {
        # the detector takes both halves for blue, the left one more so; a sliver has no pixels
        "blue cube": [
            ((10, 40, 20, 50), 0.9),
            ((70, 5, 90, 25), 0.5),
            ((99.997, 9, 100, 19), 0.3),
            ((0, 0, 9, 9), 0.02),
        ],
        "cube": [((10, 40, 20, 50), 0.9)],
    }
    bench.detector = FakeDetector(boxes)
    session = bench.session()
    (found,) = ask(session, "find", WHOLE, "blue cube")  # type: ignore[misc]
    assert found.fields[1] == 70
    scores = session.calls[-1].scores
    assert scores[0] == pytest.approx((0.5 / (1 + 2 * np.exp(-10))) ** 0.5, abs=1e-4)
    assert scores[1:] == pytest.approx([0.3, 0.02, (0.9 * np.exp(-10)) ** 0.5], abs=1e-4)
    assert bench.matcher.encoded == 2  # the matcher is not asked about a box so hopeless
    assert ask(session, "find", WHOLE, "cube") and bench.matcher.encoded == 2  # of no family


def test_find_gives_boxes_with_y_up_best_first() -> None:
    found = ask(Bench().session(), "find", WHOLE, "cube")
    assert found == [
        Ref("patch", ("image0", 10.0, 10.0, 20.0, 20.0)),
        Ref("patch", ("image0", 70.0, 35.0, 90.0, 55.0)),
    ]


def test_a_call_notes_the_best_score_that_it_left_out() -> None:
    bench = Bench()
    bench.detector = FakeDetector(
        {"balls": [((1, 1, 5, 5), 0.31234567)], "ball": [((1, 1, 5, 5), 0.9)]}
    )
    session = bench.session()
    ask(session, "find", WHOLE, "cube")
    assert session.missed == {}
    assert ask(session, "find", WHOLE, "balls") and session.calls[-1].scores == (0.9,)
    assert session.missed == {"detector.threshold": 0.31234567}  # the plural's own boxes count
    ask(session, "verify_property", WHOLE, "ball", "green")
    assert 0 < session.missed["matcher.threshold"] < 0.5


def test_find_in_a_patch_keeps_what_has_its_centre_there() -> None:
    left_half = Ref("patch", ("image0", 0, 0, 50, HEIGHT))
    found = ask(Bench().session(), "find", left_half, "cube")
    assert [ref.fields[1] for ref in found] == [10.0]


def test_find_by_crop_returns_boxes_of_the_whole_picture() -> None:
    bench = Bench(find_scope="crop")
    found = ask(bench.session(), "find", Ref("patch", ("image0", 50, 0, 100, HEIGHT)), "cube")
    assert bench.detector.encoded == [(HEIGHT, 50, 3)]
    assert found[0].fields[1:] == (60.0, 10.0, 70.0, 20.0)


def test_an_image_is_encoded_once_whatever_is_asked() -> None:
    bench = Bench()
    for _ in range(2):
        session = bench.session()
        for name in ("cube", "ball", "cone"):
            ask(session, "find", WHOLE, name)
    assert bench.detector.encoded == [(HEIGHT, WIDTH, 3)]
    assert bench.detector.detected == ["cube", "ball", "cone"]
    assert session.model_calls == 0 and all(call.cached for call in session.calls)


def test_a_lower_threshold_costs_no_forward_and_finds_more() -> None:
    bench = Bench()
    first = bench.session()
    assert ask(first, "find", WHOLE, "ball") == []
    assert first.calls[0].rejected_by == "detector.threshold"
    second = bench.session(thresholds={"detector.threshold": 0.1})
    assert len(ask(second, "find", WHOLE, "ball")) == 1
    assert second.calls[0].rejected_by is None
    judged = [(one.judged_by, one.scores) for one in (first.calls[0], second.calls[0])]
    assert (
        judged[0] == judged[1] and judged[0][0] == "detector.threshold" and len(judged[0][1]) == 1
    )
    assert second.model_calls == 0 and len(bench.detector.encoded) == 1


def test_a_score_at_the_threshold_passes() -> None:
    session = Bench().session(thresholds={"detector.threshold": 0.5})
    assert len(ask(session, "find", WHOLE, "cube")) == 2
    assert session.calls[0].rejected_by is session.calls[0].shortened_by is None


@pytest.mark.parametrize(("least", "shortened"), [(0.5, "detector.threshold"), (0.55, None)])
def test_only_what_tuning_can_reach_shortens_a_list(least: float, shortened: str | None) -> None:
    schedule = ThresholdSchedule(0.8, 0.1, least)
    session = Bench(sensitivities={"detector.threshold": schedule}).session()
    assert len(ask(session, "find", WHOLE, "cube")) == 1
    assert session.calls[0].shortened_by == shortened


def test_a_schedule_falls_by_its_step_to_its_floor_and_no_further() -> None:
    schedule = ThresholdSchedule(0.4, 0.15, 0.2)
    assert [schedule.lower(value) for value in (0.4, 0.25, 0.2, 0.1)] == [0.25, 0.2, None, None]


def test_nothing_at_all_is_not_blamed_on_the_threshold() -> None:
    session = Bench().session()
    assert ask(session, "find", WHOLE, "unicorn") == []
    assert session.calls[0].rejected_by is None


def test_plural_finds_the_singular() -> None:
    assert len(ask(Bench().session(), "find", WHOLE, "cubes")) == 2


def test_a_detector_that_knows_no_such_singular_found_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    detect = bench.detector.detect

    def of_categories(encoding: object, phrases: list[str]) -> object:
        if "knive" in phrases:
            raise UnknownPhraseError("knive", "nearest: knife")
        return detect(encoding, phrases)

    monkeypatch.setattr(bench.detector, "detect", of_categories)
    assert ask(bench.session(), "find", WHOLE, "knives") == []


def test_an_unknown_word_is_refused_before_the_detector_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    vocabulary = Vocabulary(["cube"], {}, {})
    monkeypatch.setattr(bench.detector, "vocabulary", vocabulary, raising=False)
    session = bench.session()
    with pytest.raises(UnknownPhraseError):
        ask(session, "find", WHOLE, "dog")
    assert not bench.detector.encoded and session.calls[0].unknown == "dog"
    assert len(ask(session, "find", WHOLE, "cubes")) == 2


def test_verify_property_compares_within_the_family() -> None:
    session = Bench().session()
    left = Ref("patch", ("image0", 0, 0, 40, HEIGHT))
    assert ask(session, "verify_property", left, "cube", "red") is True
    assert ask(session, "verify_property", left, "cube", "blue") is False
    assert session.calls[1].rejected_by == "matcher.threshold"
    (passed,), (refused,) = (one.scores for one in session.calls)
    assert refused < session.thresholds["matcher.threshold"] <= passed


def test_text_and_image_matches() -> None:
    session = Bench().session()
    left, right = (Ref("patch", ("image0", x, 0, x + 40, HEIGHT)) for x in (0, 60))
    assert ask(session, "best_text_match", left, ["blue", "red"]) == "red"
    assert ask(session, "best_image_match", [left, right], "blue thing") == 1
    assert ask(session, "best_description_from_options", right, "cube", ["red", "blue"]) == "blue"


def test_depth_is_larger_farther_away() -> None:
    bench = Bench()
    session = bench.session()
    top, bottom = (Ref("patch", ("image0", 0, y, 100, y + 20)) for y in (40, 0))
    assert ask(session, "compute_depth", top) > ask(session, "compute_depth", bottom)
    assert bench.depth.encoded == 1


def test_a_question_about_a_crop() -> None:
    bench = Bench()
    patch = Ref("patch", ("image0", 0, 0, 10, 10))
    session = bench.session()
    assert ask(session, "simple_query", patch, "what color is this?") == "red"
    ask(session, "simple_query", patch, "what shape is this?")
    assert bench.vqa.encoded == 1


def test_an_answer_in_a_sentence_by_a_model_that_has_them_and_by_one_that_has_not() -> None:
    bench = Bench()
    assert ask(bench.session(), "complex_query", WHOLE, "what color is this?") == "red"
    bench.vqa.explain = lambda encodings, questions: ["it is red"] * len(questions)
    told = ask(bench.session(media_from(picture())), "complex_query", WHOLE, "what is it like?")
    assert told == "it is red"


def test_pixels_are_a_private_copy() -> None:
    media = media_from(picture())
    session = Bench().session(media)
    copy = ask(session, "pixels", WHOLE)
    assert copy.shape == (3, HEIGHT, WIDTH)
    copy[:] = 7
    assert media.images[0][0, 0].tolist() == [255, 0, 0]


def test_events_are_found_inside_the_segment() -> None:
    bench = Bench()
    session = bench.session(np.stack([picture()] * 8))
    assert ask(session, "locate_event", VIDEO, "the cube stops") == [2, 4]
    assert ask(session, "locate_event", Ref("segment", ("video0", 3, 8)), "the cube stops") == [
        3,
        4,
    ]
    assert ask(session, "locate_event", Ref("segment", ("video0", 4, 8)), "the cube stops") == [
        4,
        4,
    ]
    assert ask(session, "locate_event", VIDEO, "the ball falls") == [0, 0]
    assert session.calls[-1].rejected_by == "video.threshold"
    assert ask(session, "caption_video", VIDEO, None) == "the cube stops. the ball falls."
    assert ask(session, "caption_video", Ref("segment", ("video0", 8, 8)), None) == ""
    assert bench.video.encoded == 1


def test_language_tools() -> None:
    session = Bench().session()
    options = ["it stops", "it falls"]
    assert ask(session, "select_answer", {"after": "it falls"}, "what?", options) == "it falls"
    assert ask(session, "process_guesses", "what?", ["Red", "red "]) == "Red"
    assert ask(session, "llm_query", "cubes") == "about cubes"


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("open_file", ("x",), "unknown tool"),
        ("find", (WHOLE, 3), "must be text"),
        ("find", (WHOLE, "x" * 3_000), "1 to 2000 characters"),
        ("find", ("image0", "cube"), "expected an image patch"),
        ("find", (Ref("patch", ("image7", 0, 0, 1, 1)), "cube"), "no picture 'image7'"),
        ("find", (Ref("patch", ("image0", "a", 0, 1, 1)), "cube"), "ValueError"),
        ("compute_depth", (Ref("patch", ("image0", 5, 5, 5, 5)),), "empty"),
        ("best_image_match", ([], "red"), "1 to 1,000 patches"),
        ("locate_event", (WHOLE, "x"), "expected a video segment"),
        ("caption_video", (VIDEO, "x"), "no video"),
        ("find", (WHOLE,), "TypeError"),
    ],
)
def test_a_bad_call_is_refused_and_logged(name: str, args: tuple, said: str) -> None:
    session = Bench().session()
    with pytest.raises(ToolError, match=said):
        session.call(name, args, {}, 3)
    assert session.calls[0].error is not None and session.calls[0].line == 3


def test_an_override_replaces_one_result() -> None:
    bench = Bench()
    session = bench.session(overrides={1: "green"})
    assert len(ask(session, "find", WHOLE, "cube")) == 2
    assert ask(session, "simple_query", WHOLE, "what color is this?") == "green"
    assert bench.vqa.encoded == 0


class Cancellable(Payer):
    """A query that ends when its event is set."""

    def __init__(self) -> None:
        self.cancel = threading.Event()

    def check_running(self) -> None:
        if self.cancel.is_set():
            raise CancelledError


def test_a_cancelled_run_answers_no_more() -> None:
    payer = Cancellable()
    session = Bench().session(payer=payer)
    payer.cancel.set()
    with pytest.raises(CancelledError):
        ask(session, "find", WHOLE, "cube")


def test_a_missing_role_is_said() -> None:
    toolbox = Toolbox(ModelSet({}), ToolSettings())
    with pytest.raises(ToolError, match="no model plays the role 'detector'"):
        ask(toolbox.session(media_from(picture())), "find", WHOLE, "cube")


def test_threads_share_one_forward() -> None:
    bench = Bench()
    sessions = [bench.session() for _ in range(8)]
    threads = [threading.Thread(target=ask, args=(s, "find", WHOLE, "cube")) for s in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bench.detector.encoded) == 1
    assert [len(session.calls[0].result) for session in sessions] == [2] * 8


def test_a_call_is_refused_that_would_hold_a_worker_for_minutes() -> None:
    session = Bench().session()
    for name, *arguments in (
        ("best_text_match", WHOLE, ["a"] * 60_000),
        ("best_image_match", [WHOLE] * 60_000, "a"),
        ("select_answer", "x" * 1_000_000, "why?", ["a", "b"]),
    ):
        with pytest.raises(ToolError, match="at most|1 to 1,000 patches"):
            session.call(name, tuple(arguments), {}, None)


def test_a_call_that_asks_many_times_ends_when_the_run_is_cancelled() -> None:
    payer = Cancellable()
    session = Bench().session(payer=payer)
    encode = session.encoded

    def encoded(*arguments: object) -> object:
        payer.cancel.set()
        return encode(*arguments)

    session.encoded = encoded
    with pytest.raises(CancelledError):
        session.call("verify_property", (WHOLE, "cube", "red"), {}, None)


def test_models_see_only_the_pixels_of_a_box() -> None:
    seen: list[np.ndarray] = []

    class Looking(FakeAnswerer):
        def encode(self, images):  # type: ignore[no-untyped-def]
            seen.extend(images)
            return super().encode(images)

    class Judging(FakeMatcher):
        def encode_images(self, images):  # type: ignore[no-untyped-def]
            seen.extend(images)
            return super().encode_images(images)

    models = ModelSet({"vqa": lambda: Looking({}), "matcher": Judging})
    flag = np.zeros((600, 600, 3), np.uint8)
    flag[:, :250, 0], flag[:, 250:350, 1], flag[:, 350:, 2] = 255, 255, 255
    session = Toolbox(models, ToolSettings()).session(media_from(flag))
    green = session.patch_ref("image0", (250, 0, 350, 600))
    session.call("simple_query", (green, "what color is this?"), {}, None)
    session.call("best_text_match", (green, ["red", "green"]), {}, None)
    assert [each.shape for each in seen] == [(600, 100, 3)] * 2
    assert all((each == (0, 255, 0)).all() for each in seen)


def test_what_a_reply_left_out_is_logged_and_kept_with_it() -> None:
    class Cut(FakeDetector):
        def detect(self, encoding, phrases):  # type: ignore[no-untyped-def]
            note = "the limit of tokens cut the list"
            return [Detections(boxes, note) for boxes in super().detect(encoding, phrases)]

    models = ModelSet({"detector": lambda: Cut({"cube": [((10, 40, 20, 50), 0.9)]})})
    toolbox = Toolbox(models, ToolSettings())
    for _ in range(2):  # computed, then from the cache
        session = toolbox.session(media_from(picture()))
        assert len(session.call("find", (WHOLE, "cube"), {}, None)) == 1
        assert session.calls[0].note == "the limit of tokens cut the list"
