"""Messages as the chat API takes them; pictures go as PNG in data URIs."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

from viper.prompting.messages import Picture, Prompt, messages_of


def chat_messages(prompt: Prompt, max_side: int, detail: str = "") -> list[dict[str, Any]]:
    """Return the field ``messages`` of a request.

    Args:
        max_side: greatest width and height in pixels of a picture; larger ones are scaled down.
        detail: sent with every picture, unless empty.
    """
    return [
        {"role": message.role, "content": _content(message.parts, max_side, detail)}
        for message in messages_of(prompt)
    ]


def _content(parts: tuple[str | Picture, ...], max_side: int, detail: str) -> Any:
    """Return plain text where there are no pictures, because some servers take nothing else."""
    if all(isinstance(part, str) for part in parts):
        return "\n\n".join(map(str, parts))
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {
            "type": "image_url",
            "image_url": {
                "url": data_uri(part, max_side),
                **({"detail": detail} if detail else {}),
            },
        }
        for part in parts
    ]


def data_uri(picture: Picture, max_side: int) -> str:
    """Return a picture as a PNG in a data URI, scaled down to ``max_side`` if it is larger."""
    from PIL import Image

    image = Image.fromarray(picture.pixels)
    image.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
