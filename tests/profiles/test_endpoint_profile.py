"""The profile ``endpoint`` against a server on this machine: pictures, tools, usage and cost."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.endpoint.model import sent
from tests.models.llm.openai_server import Answer, OpenAIServer, Received, refusal
from viper.errors import ToolError
from viper.models.llm.messages import Picture
from viper.models.media import media_from
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper.sandbox import Ref
from viper.strategies.base import Components

WIDE = np.random.default_rng(0).integers(0, 256, (900, 2048, 3)).astype(np.uint8)
SMALL = np.random.default_rng(1).integers(0, 256, (40, 60, 3)).astype(np.uint8)
IMAGE = Ref("image", ("image0", 60, 40))
PROGRAM = """```python
def execute_command(image, question, possible_answers):
    patch = ImagePatch(image)
    cube = patch.find('cube')[0]
    if not cube.verify_property('cube', 'red'):
        return 'not red'
    return llm_query(cube.simple_query('what is this?'), long_answer=False)
```"""
PARTS = {"model", "temperature", "seed", "n", "max_tokens", "messages", "stop"}


def words_of(request: Received) -> str:
    contents = [message["content"] for message in request.body["messages"]]
    texts = [
        part.get("text", "") if isinstance(part, dict) else part
        for content in contents
        for part in (content if isinstance(content, list) else [content])
    ]
    return "\n".join(texts)


def pictures_of(request: Received) -> list[Any]:
    parts = [
        part
        for message in request.body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    data = [part["image_url"]["url"].partition("base64,")[2] for part in parts]
    return [np.array(Image.open(BytesIO(base64.b64decode(each)))) for each in data]


def behave(request: Received) -> Answer:
    """Reply as a good model would to each kind of request; tokens grow with the kind."""
    words = words_of(request)
    kinds = (
        ("Write one entry for each object", '[{"label": "cube", "bbox_2d": [0, 0, 500, 1000]}]', 5),
        ("Answer yes or no", "<think>no?</think>Yes, I think so.", 6),
        ("# answer:", "a cube", 7),
        ("Answer in a few words", '"A cube."', 8),
        ("execute_command", PROGRAM, 9),
        ("", "A cube stands there.", 10),
    )
    text, tokens = next((text, tokens) for mark, text, tokens in kinds if mark in words)
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": tokens}
    return Answer(json.dumps({"choices": [choice], "usage": usage}))


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    started: list[OpenAIServer] = []

    def start(behaviour: Any = behave) -> OpenAIServer:
        started.append(OpenAIServer(otherwise=behaviour))
        monkeypatch.setenv("OPENAI_BASE_URL", started[-1].url)
        return started[-1]

    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield start
    for server in started:
        server.close()


def components_of(tmp_path: Path) -> Components:
    return load_profile("endpoint", state=tmp_path).components()


def test_a_run_counts_the_requests_of_every_role_in_its_usage(servers: Any, tmp_path: Path) -> None:
    server = servers()
    with Reasoner(load_profile("endpoint", state=tmp_path), preload=False) as reasoner:
        result = reasoner.run(SMALL, "What is the left object?", task="question")
    assert result.answer is not None, result.failure
    assert result.answer.value == "a cube"
    usage = result.trace.usage
    assert [len(pictures_of(request)) for request in server.received] == [1, 1, 1, 1, 0]
    assert usage.llm_calls == len(server.received) == 5
    assert (usage.prompt_tokens, usage.completion_tokens) == (500, 9 + 5 + 6 + 8 + 7)
    assert usage.cost_usd == pytest.approx((500 * 0.4 + 35 * 1.6) / 1e6)
    digests = [Picture(shown).digest for r in server.received for shown in pictures_of(r)]
    whole, left = (Picture(sent(shown)).digest for shown in (SMALL, SMALL[:, :30]))
    assert digests == [whole] * 2 + [left] * 2
    assert all(set(request.body) <= PARTS for request in server.received)


def test_pictures_are_bounded_and_boxes_are_of_the_original(servers: Any, tmp_path: Path) -> None:
    server = servers()
    session = components_of(tmp_path).toolbox.session(media_from(WIDE))
    image = Ref("image", ("image0", 2048, 900))
    (found,) = session.call("find", (image, "cube"), {}, None)
    assert found.fields[1:5] == (0.0, 0.0, 1024.0, 900.0)
    (shown,) = pictures_of(server.received[0])
    assert shown.shape == (450, 1024, 3)


def test_videos_are_described_and_searched(servers: Any, tmp_path: Path) -> None:
    server = servers()
    clip = np.stack([SMALL] * 6)
    session = components_of(tmp_path).toolbox.session(media_from(clip))
    video = Ref("video", ("video0", 6, 60, 40))
    assert session.call("caption_video", (video,), {}, None) == "A cube stands there."
    assert session.call("locate_event", (video, "it falls"), {}, None) == [0, 6]
    assert [len(pictures_of(request)) for request in server.received][0] == 6


def test_roles_do_not_wait_for_one_another(servers: Any, tmp_path: Path) -> None:
    together = threading.Barrier(6, timeout=15)

    def meet(request: Received) -> Answer:
        together.wait()
        return behave(request)

    server = servers(meet)
    toolbox = components_of(tmp_path).toolbox
    sessions = [toolbox.session(media_from(np.roll(SMALL, step, axis=0))) for step in range(3)]
    asked = [(each, name) for each in sessions for name in ("find", "simple_query")]
    answers: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda each=each, name=name: answers.append(
                each.call(name, (IMAGE, "cube"), {}, None)
            )
        )
        for each, name in asked
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == server.peak == 6


@pytest.mark.parametrize(
    ("tool", "arguments", "answer", "problem"),
    [
        ("find", (IMAGE, "cube"), "I see no boxes here.", "was asked for boxes and wrote"),
        (
            "verify_property",
            (IMAGE, "cube", "red"),
            "Perhaps.",
            "was asked for yes or no and wrote",
        ),
    ],
)
def test_a_model_that_ignores_the_format(
    tool: str, arguments: Any, answer: str, problem: str, servers: Any, tmp_path: Path
) -> None:
    choice = {"message": {"content": answer}, "finish_reason": "stop"}
    servers(lambda _: Answer(json.dumps({"choices": [choice]})))
    session = components_of(tmp_path).toolbox.session(media_from(SMALL))
    with pytest.raises(ToolError, match=f"gpt-4.1-mini@.* {problem}") as caught:
        session.call(tool, arguments, {}, None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("message", ["image_url is not supported", "image exceeds 5 MB"])
def test_an_endpoint_that_refuses_pictures(message: str, servers: Any, tmp_path: Path) -> None:
    servers(lambda _: refusal(400, message))
    session = components_of(tmp_path).toolbox.session(media_from(SMALL))
    with pytest.raises(Exception, match=f"{message}.*1 picture of at most 1024 pixels") as caught:
        session.call("simple_query", (IMAGE, "what?"), {}, None)
    assert "\n" not in str(caught.value)


def test_no_model_estimates_depth(servers: Any, tmp_path: Path) -> None:
    servers()
    session = components_of(tmp_path).toolbox.session(media_from(SMALL))
    with pytest.raises(ToolError, match="no model plays the role 'depth'"):
        session.call("compute_depth", (IMAGE,), {}, None)


def test_logprobs_are_asked_for_by_the_profile_alone(servers: Any, tmp_path: Path) -> None:
    tokens = [{"token": "Yes", "logprob": np.log(0.3)}, {"token": "no", "logprob": np.log(0.1)}]
    choice = {
        "message": {"content": "Yes"},
        "finish_reason": "stop",
        "logprobs": {"content": [{"token": "Yes", "logprob": -1.2, "top_logprobs": tokens}]},
    }
    server = servers(lambda _: Answer(json.dumps({"choices": [choice]})))
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\n[llm]\nbackend = "transformers"\nmodel = "embedded:writer"\n'
        '[vlm]\nbackend = "openai"\nmodel = "eyes"\n'
        "options = { extra = { logprobs = true, top_logprobs = 20 } }\n"
        '[roles]\nmatcher = { backend = "vlm" }\n'
    )
    models = load_profile(str(path)).components().toolbox.models
    chances = models.get("matcher").likelihood([SMALL], ["a cube"])
    assert chances[0, 0] == pytest.approx(0.75)
    body = server.received[0].body
    assert (body["logprobs"], body["top_logprobs"], body["model"]) == (True, 20, "eyes")
