"""Messages of a conversation with a language model: texts and pictures in turns.

A prompt is a conversation, or a plain string as the short form of one user message. Writers of
prompts build it (:func:`system`, :func:`user`, :func:`assistant`); backends read it as messages
(:func:`messages_of`) or as one text (:func:`without_roles`), caches as a key (:func:`as_key`),
people as :func:`as_text`.
"""

from __future__ import annotations

import hashlib
import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from viper.models.libraries import Image
from viper.storage.cache import ComputeCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role = Literal["system", "user", "assistant"]

# Default of the largest pictures that models in this process get: 1,280 tokens of Qwen2-VL and
# Qwen2.5-VL (28 x 28 pixels each), 980 of Qwen3-VL (32 x 32). Larger ones fill memory and context.
MAX_PIXELS = 1280 * 28 * 28

# Pictures with more colors are sent as JPEG of this quality, a fifth of their PNG's size. Fewer
# colors are drawings or screens, whose edges JPEG would blur.
_MOST_COLORS = 4096
_QUALITY = 90

# Encoded pictures that are kept, some 10 MB: those of the queries under way.
_KEPT = 64

# Largest ratio of a picture's sides; the image processors of Qwen and others reject thinner ones.
MAX_ASPECT = 200


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture in a message: uint8 [H, W, 3], RGB. Pictures with the same pixels are equal."""

    pixels: NDArray[np.uint8]

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of size and pixels, 64 hex digits."""
        digest = hashlib.sha256(str(self.pixels.shape).encode())
        digest.update(self.pixels.tobytes())
        return digest.hexdigest()

    def within(self, max_side: int) -> Image.Image:
        """Return the picture for PIL, scaled down if a side is longer than ``max_side`` pixels."""
        image = Image.fromarray(self.pixels)
        image.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
        return image

    def data_uri(self) -> str:
        """Return the picture as a PNG in a ``data:`` URI."""
        return _data_uri(Image.fromarray(self.pixels), "png")

    def fitted(self, max_pixels: int) -> Image.Image:
        """Return the picture for PIL, scaled down if it has more than ``max_pixels`` pixels.

        Gray fills the rest of its frame, see :func:`framed`.
        """
        image = Image.fromarray(self.pixels)
        frame = framed(*image.size)
        short, long = sorted(frame)
        if short * long > max_pixels:
            # a root, as the factor applies to both sides; rounding up keeps a thin side above 0
            short = math.ceil(short * math.sqrt(max_pixels / (short * long)))
            long = max_pixels // short
        size = (long, short) if image.width >= image.height else (short, long)
        sides = zip(image.size, size, frame, strict=True)
        width, height = (max(1, round(side * fit / whole)) for side, fit, whole in sides)
        if (width, height) != image.size:
            image = image.resize((width, height), Image.Resampling.BICUBIC)
        if (width, height) != size:
            content, image = image, Image.new("RGB", size, (128, 128, 128))
            image.paste(content)
        return image

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        height, width = self.pixels.shape[:2]
        return f"[picture {width} x {height}, sha256 {self.digest[:16]}]"


# Characters a pixel from which on a PNG with few colors is a photograph as well, such as a gray one
# (.5 to 1); drawings and screens take below .2.
_LARGE_PNG = 0.3

# Characters of a PNG that is sent as it is whatever it shows: nothing is to be saved.
_SMALL_PNG = 50_000


class PictureEncoder:
    """Encodes pictures for an endpoint, each once; thread-safe.

    Args:
        max_side: greatest width and height in pixels; larger pictures are scaled down.
        min_side: smaller pictures are enlarged until their longer side has this many pixels.
    """

    # Models cut pictures into patches of 14 to 32 pixels: a crop of 90 pixels gives 3 to 6 a side.
    # More than 8 times larger shows nothing more.
    MIN_SIDE, MOST_ENLARGED = 200, 8

    def __init__(self, max_side: int, min_side: int = MIN_SIDE) -> None:
        self._max_side, self._min_side = max_side, min_side
        self._encoded = ComputeCache(_KEPT)

    def data_uri(self, picture: Picture) -> str:
        """Return a picture in a ``data:`` URI, as JPEG if it is a photograph, else as PNG."""
        key = ("picture", picture.digest)
        return str(self._encoded.get(key, lambda: self._encode(picture))[0])

    def _encode(self, picture: Picture) -> str:
        image = picture.within(self._max_side)
        is_photograph = image.getcolors(_MOST_COLORS) is None
        longest = max(image.size)
        factors = (-(-self._min_side // longest), self._max_side // longest, self.MOST_ENLARGED)
        if (factor := min(factors)) > 1:
            size = (image.width * factor, image.height * factor)
            image = image.resize(size, Image.Resampling.BICUBIC)
        png = "" if is_photograph else _data_uri(image, "png")
        pixels = image.width * image.height
        is_photograph |= len(png) > max(_LARGE_PNG * pixels, _SMALL_PNG)  # a gray one
        return _data_uri(image, "jpeg", quality=_QUALITY) if is_photograph else png


def _data_uri(image: Image.Image, kind: str, **how: Any) -> str:
    buffer = BytesIO()
    image.save(buffer, kind, **how)
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"


@dataclass(frozen=True)
class Message:
    """A turn of a conversation: texts and pictures in their order."""

    role: Role
    parts: tuple[str | Picture, ...]

    @property
    def text(self) -> str:
        """Return the parts as text, joined by blank lines; a line describes each picture."""
        return "\n\n".join(str(part) for part in self.parts if part != "")


Conversation = tuple[Message, ...]
Prompt = str | Conversation


def system(text: str) -> Message:
    """Return a message with standing instructions."""
    return Message("system", (text,))


def user(*parts: str | Picture) -> Message:
    """Return a message of the user."""
    return Message("user", parts)


def assistant(text: str) -> Message:
    """Return an earlier reply of the model, without the blanks around it.

    A blank at its beginning could join the tokens before it, and the next prompt would no longer
    begin with the tokens of this one.
    """
    return Message("assistant", (text.strip(),))


def messages_of(prompt: Prompt) -> Conversation:
    """Return a prompt as messages."""
    return (user(prompt),) if isinstance(prompt, str) else prompt


def framed(width: int, height: int) -> tuple[int, int]:
    """Return the size of a picture with its frame on the right or below, which only pictures
    thinner than 1 to :data:`MAX_ASPECT` need.
    """
    least = math.ceil(max(width, height) / MAX_ASPECT)
    return max(width, least), max(height, least)


def pictures_of(prompt: Prompt) -> list[Picture]:
    """Return the pictures of a prompt in their order."""
    parts = (part for message in messages_of(prompt) for part in message.parts)
    return [part for part in parts if isinstance(part, Picture)]


def with_pictures(prompt: Prompt, pictures: Sequence[Picture], caption: str) -> Prompt:
    """Return the prompt with pictures and words about them before the first user message's text."""
    if not pictures:
        return prompt
    messages = list(messages_of(prompt))
    at = next(i for i, message in enumerate(messages) if message.role == "user")
    messages[at] = user(*pictures, caption, *messages[at].parts)
    return tuple(messages)


def as_text(prompt: Prompt) -> str:
    """Return a prompt as text for people and traces, each message below its role.

    A conversation that continues another one begins with its text.
    """
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(f"[{message.role}]\n{message.text}" for message in prompt)


def without_roles(prompt: Prompt) -> str:
    """Return the texts of a prompt alone, for models that know no messages."""
    return "\n\n".join(message.text for message in messages_of(prompt))


def as_key(prompt: Prompt) -> Any:
    """Return a JSON value that is equal for equal prompts only; pictures count by their pixels."""
    if isinstance(prompt, str):
        return prompt
    return [
        [message.role, *({"picture": p.digest} if isinstance(p, Picture) else p for p in parts)]
        for message in prompt
        for parts in [message.parts]
    ]


def without_system(prompt: Conversation) -> Conversation:
    """Return the conversation with the system's text at the start of the first user message."""
    if prompt[0].role != "system" or len(prompt) < 2:
        return prompt
    first, second, *rest = prompt
    return (Message(second.role, (*first.parts, *second.parts)), *rest)
