"""A vision-language model by rote, behind a server on this machine.

It finds the kind of each request by the words in it and gives that kind's reply. A test replaces
replies, by misbehaviour too, and compares what the model counted with what a user is shown.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from tests.models.llm.openai_server import Answer, Received
from viper.models.llm.messages import Picture, PictureEncoder

KEY = "sk-secret-0123456789abcdef"

KINDS = {
    "boxes": "Write one entry for each object",
    "yes_no": "Answer yes or no.",
    "vqa": "Answer in a few words, not in a sentence.",
    "explain": "Answer in one sentence.",
    "caption": "Describe the picture in one sentence.",
    "video": "Describe what happens in it",
    "about_video": "Answer in one or two short sentences.",
    "letter": "Answer with the letter before one option",
    "split": "Split the question below into these two",
    "next": "Choose the next action by what is known so far",
    "verdict": "You judge whether a tool's findings help",
    "short": "Answer a short question from general knowledge",
    "plan": "You plan how to answer queries about",
    "action": "Each reply holds one action",
    "program": "block is run.",
    "llm_query": "# answer:",
}
"""Words by which the kind of a request is known; the first that fits counts."""


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


ON_VIDEO = fenced("""def execute_command(video, question, possible_answers):
    clip = VideoSegment(video)
    info = {"clip": clip.caption_video(), "start": clip.trim(0, 4).caption_video("what moves?")}
    return select_answer(info, question, possible_answers)""")
ON_PICTURE = fenced("""def execute_command(image, question, possible_answers):
    cubes = ImagePatch(image).find("cube")
    if not cubes or not cubes[0].verify_property("cube", "red"):
        return "no"
    answer = llm_query(cubes[0].simple_query("what is this?"), long_answer=False)
    return answer""")
FITTING = {"yes or no": "'yes'", "a whole number": "2", "a color": "'red'"}
"""Answers of the kinds that a prompt may state."""

GROUND = fenced("""def execute_command(image):
    patch = ImagePatch(image)
    return (patch.find("cube") or [patch])[0]""")


def program(request: Received) -> str:
    """The program for the task that the request states."""
    if "`execute_command(video" in request.words:
        return ON_VIDEO
    if "Return one ImagePatch" in request.words:
        return GROUND
    kinds = "|".join((*FITTING, "'[^']*'"))
    stated = re.findall(f"Expected answer: ({kinds})", request.words)
    if not stated:
        return ON_PICTURE
    return ON_PICTURE.replace("return answer", f"return {FITTING.get(stated[-1], stated[-1])}")


Reply = str | Answer | Mapping[str, Any] | Callable[[Received], Any]
"""A text, a whole answer of the server, a message, or what makes one of them from a request."""

GOOD: Mapping[str, Reply] = {
    "boxes": '```json\n[{"label": "cube", "bbox_2d": [0, 0, 500, 1000]}]\n```',
    "yes_no": "<think>no?</think>Yes, I think so.",
    "vqa": '"A cube."',
    "explain": "It is a cube.",
    "caption": "A cube stands there.",
    "video": "The cube falls.",
    "about_video": "The cube moves.",
    "letter": "<think>Is it A? No.</think>\nB",
    "split": "visual: what is the cube made of?\nknowledge: #",
    "next": "**Next:** vqa: what is the cube made of?",
    "verdict": "reason: it says so\nverdict: answer\nextracted: a cube",
    "short": "a cube",
    "plan": "<think>1. no</think>1. Find the cube.\n2. Ask what it is.",
    "action": "<thought>I store it.</thought><code>final_answer = 'cube'</code>",
    "program": program,
    "llm_query": "\na cube",
}


class Asked(NamedTuple):
    kind: str
    request: Received


class Model:
    """Answers every request of the profile ``endpoint``, and counts tokens as a server would.

    Args:
        replies: by kind, in place of the good ones.

    Attributes:
        asked: the requests in the order of their arrival.
        prompt_tokens, completion_tokens: of all answers that reported usage.
    """

    def __init__(self, **replies: Reply) -> None:
        self.replies = {**GOOD, **replies}
        self.asked: list[Asked] = []
        self.prompt_tokens = self.completion_tokens = 0
        self._lock = threading.Lock()

    def __call__(self, request: Received) -> Answer:
        kind = next(kind for kind, words in KINDS.items() if words in request.words)
        with self._lock:
            self.asked.append(Asked(kind, request))
        reply = self.replies[kind]
        reply = reply(request) if callable(reply) else reply
        return reply if isinstance(reply, Answer) else self.answer(request, reply)

    def answer(self, request: Received, reply: Any, finish: str = "stop") -> Answer:
        """An answer with the message, and tokens that depend on the request and the reply."""
        message = reply if isinstance(reply, Mapping) else {"content": reply}
        prompt = 11 + len(request.words) // 4 + 85 * len(request.pictures)
        completion = 1 + len(json.dumps(message)) // 4
        with self._lock:
            self.prompt_tokens += prompt
            self.completion_tokens += completion
        choice = {"index": 0, "finish_reason": finish, "message": message}
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        return Answer(
            json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage})
        )

    @property
    def kinds(self) -> list[str]:
        """The kinds of the requests so far."""
        return [asked.kind for asked in self.asked]

    def of(self, kind: str) -> list[Received]:
        """The requests of a kind."""
        return [asked.request for asked in self.asked if asked.kind == kind]

    def cost_usd(self, prompt: float = 0.4, completion: float = 1.6) -> float:
        """What all answers cost, at the profile's prices for a million tokens."""
        return (self.prompt_tokens * prompt + self.completion_tokens * completion) / 1e6


def digests(pictures: Any) -> list[str]:
    """The hashes of pictures."""
    return [Picture(np.asarray(picture)).digest for picture in pictures]


def sent(pixels: Any) -> Any:
    """A picture as it must arrive: scaled, and as JPEG if it is a photograph."""
    uri = PictureEncoder(1024).data_uri(Picture(np.asarray(pixels)))
    return np.array(Image.open(BytesIO(base64.b64decode(uri.partition("base64,")[2]))))


def written(path: Path, shape: tuple[int, int]) -> Path:
    """Write a picture of random pixels, height and width given, to a file."""
    pixels = np.random.default_rng(shape[0]).integers(0, 256, (*shape, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path
