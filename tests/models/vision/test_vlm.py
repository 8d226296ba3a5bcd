"""Questions about pictures to a language model, its yes and no, and the matcher made of them."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.strategies.bench import Purse
from viper.errors import ProfileError, ToolError
from viper.models.llm.messages import Prompt, as_text
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.scripted import ScriptedLLM
from viper.models.media import media_from
from viper.models.vision.video_chat import ChatVideo
from viper.models.vision.video_frames import FramesVideo
from viper.models.vision.vlm import ChatRequest, CutReplyError, EndpointVLM, VlmMatcher
from viper.models.vision.vqa_chat import ChatAnswerer
from viper.sandbox import Ref
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

PICTURE = np.zeros((20, 24, 3), np.uint8)
REQUEST = ChatRequest([PICTURE], "Is it red?")


def saying(*replies: str) -> EndpointVLM:
    return EndpointVLM(ScriptedLLM(replies, sees_pictures=True))


class Reporting(ScriptedLLM):
    """Gives every completion the same first tokens, or the same reason."""

    def __init__(self, first: dict[str, float] | None, text: str, reason: str = "stop") -> None:
        super().__init__(lambda _: text, sees_pictures=True)
        self._given = {"first_logprobs": first, "finish_reason": reason}

    def generate(self, prompts: list[Prompt], sampling: Sampling) -> list[list[Completion]]:  # type: ignore[override]
        answers = super().generate(prompts, sampling)
        return [[Completion(c.text, 9, 1, **self._given) for c in one] for one in answers]  # type: ignore[arg-type]


def test_a_model_without_eyes_is_refused() -> None:
    with pytest.raises(ProfileError, match="scripted takes no pictures"):
        EndpointVLM(ScriptedLLM())


def test_replies_come_without_reasoning() -> None:
    assert saying("<think>is it blue?</think>\n red ").ask([REQUEST], 9) == [("red", 1.0)]


@pytest.mark.parametrize(
    ("text", "chance"),
    [
        ("yes", 1.0),
        ("No.", 0.0),
        ("**Yes**, it is, no doubt", 1.0),
        ("The answer is no", 0.0),
        ("<think>yes or no? yes</think>No", 0.0),
    ],
)
def test_written_yes_and_no(text: str, chance: float) -> None:
    assert saying(text).probability_of_yes([REQUEST]) == [chance]


@pytest.mark.parametrize("text", ["", "Maybe", "It is either yes or no", "<think>yes, but"])
def test_neither_yes_nor_no_is_one_clear_line(text: str) -> None:
    with pytest.raises(ToolError, match="scripted was asked for yes or no and wrote"):
        saying(text).probability_of_yes([REQUEST])


def test_first_tokens_decide_where_the_server_reports_them() -> None:
    first = {"Yes": math.log(0.5), " yes": math.log(0.1), "No": math.log(0.2), "Red": math.log(0.2)}
    vlm = EndpointVLM(Reporting(first, "Red"))
    assert vlm.probability_of_yes([REQUEST]) == [pytest.approx(0.75)]
    thinking = EndpointVLM(Reporting({"<think>": -0.1}, "<think>hm</think>no"))
    assert thinking.probability_of_yes([REQUEST]) == [0.0]


def test_a_negligible_probability_of_yes_and_no_is_no_sign() -> None:
    first = {"\n": -0.1, "Yes": -8.0, "No": -9.0}
    assert EndpointVLM(Reporting(first, "\nNo")).probability_of_yes([REQUEST]) == [0.0]
    with pytest.raises(ToolError, match="asked for yes or no"):
        EndpointVLM(Reporting(first, "\nPerhaps")).probability_of_yes([REQUEST])


def roles(vlm: EndpointVLM) -> dict[str, Callable[[], object]]:
    answerer, video = ChatAnswerer(vlm), ChatVideo(vlm)
    shown = answerer.encode([PICTURE])
    clip = video.encode(np.zeros((4, 20, 24, 3), np.uint8))
    return {
        "answer": lambda: answerer.answer(shown, ["What is written there?"]),
        "explain": lambda: answerer.explain(shown, ["Why?"]),
        "caption": lambda: answerer.caption(shown),
        "video": lambda: video.describe(clip, 0, 4),
    }


@pytest.mark.parametrize("role", roles(saying()))
@pytest.mark.parametrize("text", ["The sign says that", "", "<think>The sign", "Okay, the user"])
def test_a_reply_that_the_limit_cut_is_no_answer(role: str, text: str) -> None:
    vlm = EndpointVLM(Reporting(None, text, "length"))
    with pytest.raises(CutReplyError, match="reached its limit after 1 tokens.*raise max_tokens"):
        roles(vlm)[role]()


def test_a_cut_sentence_is_neither_yes_nor_no() -> None:
    vlm = EndpointVLM(Reporting(None, "Okay, there may be no", "length"))
    with pytest.raises(ToolError, match="raise thinking_tokens"):
        vlm.probability_of_yes([REQUEST])
    vlm = EndpointVLM(Reporting(None, "Yes, the picture shows a", "length"))
    assert vlm.probability_of_yes([REQUEST]) == [1.0]


def test_limits_fit_long_texts_and_are_options() -> None:
    llm = ScriptedLLM(lambda _: "a page of text", sees_pictures=True)
    vlm = EndpointVLM(llm)
    for answerer in (ChatAnswerer(vlm), ChatAnswerer(vlm, max_tokens=900)):
        answerer.answer(answerer.encode([PICTURE]), ["What does it say?"])
    assert [call.sampling.max_tokens for call in llm.calls] == [256, 900]


def test_a_refusal_is_one_clear_line() -> None:
    vlm = EndpointVLM(Reporting(None, "I cannot look at people.", "refusal"))
    with pytest.raises(ToolError, match="scripted declined to answer: I cannot look at people"):
        vlm.ask([REQUEST], 9)


def red_matcher() -> VlmMatcher:
    def reply(prompt: str) -> str:
        return "yes" if "red" in prompt else "no"

    return VlmMatcher(EndpointVLM(ScriptedLLM(reply, sees_pictures=True)))


def test_the_matcher_judges_every_pair() -> None:
    rows = red_matcher().likelihood([PICTURE, PICTURE], ["a blue ball", "a red cube.", "x"])
    assert rows.dtype == np.float32 and rows.tolist() == [[0, 1, 0]] * 2
    assert red_matcher().likelihood([], ["x"]).shape == (0, 1)
    with pytest.raises(ToolError, match="has no embeddings"):
        red_matcher().encode_texts(["x"])


def test_a_photograph_is_scaled_down_once_for_all_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    vlm, asked = saying(), list[ChatRequest]()
    vlm.max_pixels = 6 * 5

    def answer(requests: list[ChatRequest]) -> list[float]:
        asked.extend(requests)
        return [0.5] * len(requests)

    monkeypatch.setattr(vlm, "probability_of_yes", answer)
    assert VlmMatcher(vlm).likelihood([PICTURE], ["red", "blue"]).shape == (1, 2)
    (first, second) = (request.images[0] for request in asked)
    assert first is second and first.shape == (5, 6, 3)


def test_tools_use_likelihoods_and_pay_for_them() -> None:
    purse = Purse()
    charged = purse.paid
    toolbox = Toolbox(ModelSet({"matcher": red_matcher}), ToolSettings())
    session = toolbox.session(
        media_from(PICTURE), thresholds={"matcher.threshold": 0.5}, payer=purse
    )
    image = Ref("image", ("image0", 24, 20))
    part = Ref("patch", ("image0", 2.0, 2.0, 9.0, 9.0))
    assert session.call("verify_property", (image, "cube", "red"), {}, None) is True
    assert session.call("verify_property", (image, "cube", "blue"), {}, None) is False
    assert session.call("best_text_match", (image, ["blue", "red"]), {}, None) == "red"
    assert session.call("best_image_match", ([image, part], "red"), {}, None) == 0
    assert len(charged) == 1 + 1 + 2 + 2
    session.call("best_text_match", (image, ["blue", "red"]), {}, None)
    assert len(charged) == 6


def test_frames_are_searched_by_likelihood() -> None:
    video = FramesVideo(None, red_matcher(), scored_frames=4, smooth=0)
    encoding = video.encode(np.stack([PICTURE] * 4))
    assert [w.score for w in video.locate(encoding, "a red cube falls")] == [1.0]
    assert video.locate(encoding, "a ball falls") == []


def test_frames_are_served_concurrently_if_their_models_are() -> None:
    here = type("Here", (), {"model_id": "here"})()
    assert FramesVideo(None, red_matcher()).concurrent
    assert not FramesVideo(here, red_matcher()).concurrent


def test_the_question_holds_the_text_as_it_is() -> None:
    llm = ScriptedLLM(["yes"], sees_pictures=True)
    VlmMatcher(EndpointVLM(llm)).likelihood([PICTURE], ["a {red} cube"])
    assert "shows this" not in as_text(llm.calls[0].messages)
    assert "a {red} cube?" in llm.calls[0].prompt
