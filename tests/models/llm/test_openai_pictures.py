"""Conversations and pictures to an endpoint, and replies in the forms that servers give them."""

import base64
import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from openai_bench import Connect, Serve
from openai_server import Answer
from PIL import Image

from viper.errors import ModelError, UsageError
from viper.models.llm.messages import Picture, PictureEncoder, assistant, system, user
from viper.models.llm.protocol import Sampling

PIXELS = np.random.default_rng(0).integers(0, 256, (30, 50, 3)).astype(np.uint8)
ASKED = (system("rules"), user(Picture(PIXELS), "what?"), assistant("a cube"), user("sure?"))


def pixels_in(part: dict[str, dict[str, str]]) -> np.ndarray:
    head, _, data = part["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    return np.array(Image.open(BytesIO(base64.b64decode(data))))


def test_turns_and_pictures_arrive_as_they_are(serve: Serve, connect: Connect) -> None:
    server = serve()
    connect(server, api="chat", min_side=1).generate([ASKED], Sampling())
    sent = server.received[0].body["messages"]
    assert [each["role"] for each in sent] == ["system", "user", "assistant", "user"]
    picture, text = sent[1]["content"]
    assert text == {"type": "text", "text": "what?"}
    assert set(picture["image_url"]) == {"url"}
    np.testing.assert_array_equal(pixels_in(picture), PIXELS)
    assert sent[0]["content"] == "rules"
    assert sent[3]["content"] == "sure?"


def test_a_large_picture_is_scaled_down_and_the_detail_is_sent_if_asked_for(
    serve: Serve, connect: Connect
) -> None:
    server = serve()
    connect(server, api="chat", max_side=20, detail="low").generate([ASKED], Sampling())
    part = server.received[0].body["messages"][1]["content"][0]
    assert pixels_in(part).shape == (12, 20, 3)
    assert part["image_url"]["detail"] == "low"


def test_completions_take_no_pictures(serve: Serve, connect: Connect) -> None:
    with pytest.raises(UsageError, match="takes no pictures"):
        connect(serve(), api="completions").generate([ASKED], Sampling())


def test_an_endpoint_that_refuses_pictures_says_what_to_do(serve: Serve, connect: Connect) -> None:
    refusal = Answer(json.dumps({"error": {"message": "image_url is not supported"}}), status=400)
    with pytest.raises(ModelError, match="1 picture of at most 1024 pixels.*set sees = false"):
        connect(serve([refusal]), api="chat").generate([ASKED], Sampling())


def test_thinking_models_get_room_and_their_template_its_arguments(
    serve: Serve, connect: Connect
) -> None:
    server = serve()
    llm = connect(
        server,
        api="chat",
        thinking_tokens=900,
        chat_template_kwargs={"enable_thinking": True},
        omit=["temperature", "seed"],
    )
    llm.generate(["hi"], Sampling(max_tokens=100))
    body = server.received[0].body
    assert body["max_tokens"] == 1000
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert not {"temperature", "seed"} & set(body)


TEXT_A, TEXT_B = {"type": "text", "text": "a"}, {"type": "text", "text": "b"}


def reply(message: dict[str, object], finish: str = "stop") -> Answer:
    return Answer(json.dumps({"choices": [{"message": message, "finish_reason": finish}]}))


@pytest.mark.parametrize(
    ("message", "finish", "text", "reason"),
    [
        ({"content": [TEXT_A, TEXT_B]}, "stop", "a\nb", "stop"),
        ({"content": [{"type": "thinking", "thinking": "x"}, TEXT_B]}, "stop", "b", "stop"),
        ({"content": "b", "reasoning_content": "a"}, "stop", "b", "stop"),
        ({"content": None, "reasoning_content": "a"}, "length", "", "length"),
        ({"content": None, "reasoning_content": "a"}, "stop", "", "stop"),
        ({"content": None, "refusal": "No, sorry."}, "stop", "No, sorry.", "refusal"),
        ({"content": ""}, "content_filter", "", "refusal"),
        ({"content": None}, "content_filter", "", "refusal"),
        (
            {"content": None, "tool_calls": [{"function": {"name": "python", "arguments": "{}"}}]},
            "tool_calls",
            '{"name": "python", "arguments": "{}"}',
            "stop",
        ),
    ],
)
def test_forms_of_messages(
    serve: Serve, connect: Connect, message: dict[str, object], finish: str, text: str, reason: str
) -> None:
    server = serve([reply(message, finish)])
    (completion,) = connect(server, api="chat").generate(["hi"], Sampling())[0]
    assert (completion.text, completion.finish_reason) == (text, reason)
    assert len(server.received) == 1


def test_a_quota_that_is_used_up_is_not_asked_again(serve: Serve, connect: Connect) -> None:
    error = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    server = serve([Answer(json.dumps(error), status=429)])
    with pytest.raises(ModelError, match="quota is used up"):
        connect(server, api="chat").generate(["hi"], Sampling())
    assert len(server.received) == 1


def noisy(height: int, width: int) -> np.ndarray:
    """A picture with as many colors as a photograph and soft edges like one."""
    coarse = np.random.default_rng(1).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    return np.array(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def read(uri: str) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(uri.partition("base64,")[2])))


def test_photographs_are_sent_as_jpeg_and_drawings_as_png() -> None:
    encoder = PictureEncoder(1024)
    photograph, drawing = noisy(300, 400), np.zeros((300, 400, 3), np.uint8)
    drawing[50:90, 60:200] = (255, 0, 0)
    photo_uri = encoder.data_uri(Picture(photograph))
    assert photo_uri.startswith("data:image/jpeg;")
    assert np.abs(np.array(read(photo_uri)).astype(int) - photograph).mean() < 4
    uri = encoder.data_uri(Picture(drawing))
    assert uri.startswith("data:image/png;")
    np.testing.assert_array_equal(read(uri), drawing)


def test_a_picture_is_encoded_once(serve: Serve, connect: Connect) -> None:
    made: list[Picture] = []

    class Counted(Picture):
        def within(self, max_side: int) -> Image.Image:
            made.append(self)
            return super().within(max_side)

    server, photograph = serve(), noisy(300, 400)
    llm = connect(server, api="chat")
    for question in ("what?", "where?", "why?", "who?"):
        llm.generate([(user(Counted(photograph.copy()), question),)], Sampling())
    assert len(server.received) == 4 and len(made) == 1


@pytest.mark.parametrize(
    ("side", "sent"),
    [((91, 91), (273, 273)), ((20, 150), (40, 300)), ((2, 3), (16, 24)), ((200, 10), (200, 10))],
)
def test_small_crops_are_enlarged(
    side: tuple[int, int], sent: tuple[int, int], serve: Serve, connect: Connect
) -> None:
    pixels, server = noisy(*side), serve()
    connect(server, api="chat").generate([(user(Picture(pixels), "what?"),)], Sampling())
    (shown,) = server.received[0].pictures
    assert shown.shape[:2] == sent
    connect(server, api="chat", min_side=1).generate([(user(Picture(pixels), "?"),)], Sampling())
    assert server.received[1].pictures[0].shape == pixels.shape


def test_a_photograph_costs_few_bytes() -> None:
    """Of 60 photographs: .13 MB on average, .70 as PNG."""
    folder = Path(__file__).parents[4] / "shared" / "data" / "photos" / "coco128"
    paths = sorted(folder.rglob("*.jpg"))[:20]
    if not paths:
        pytest.skip(f"no photographs in {folder}")
    encoder = PictureEncoder(1024)
    pictures = [Picture(np.array(Image.open(path).convert("RGB"))) for path in paths]
    sizes = [len(encoder.data_uri(picture)) for picture in pictures]
    assert max(sizes) < 0.3e6 and sum(sizes) / len(sizes) < 0.2e6


def test_a_gray_photograph_is_no_drawing() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (300, 400), dtype=np.uint8)
    lines = np.zeros((300, 400), np.uint8)
    lines[::20] = 255
    kinds = [
        PictureEncoder(1024).data_uri(Picture(np.dstack([gray] * 3)))[:16]
        for gray in (noise, lines)
    ]
    assert kinds == ["data:image/jpeg;", "data:image/png;b"]
