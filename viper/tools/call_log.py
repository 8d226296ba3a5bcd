"""Arguments and results of tool calls as values of JSON, and back."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import MediaError, ToolError
from viper.models.libraries import Image
from viper.models.media import picture_from
from viper.sandbox import Ref
from viper.tools.pixels import picture_of


def plain(value: Any) -> Any:
    """Convert a tool argument or result to a JSON value; references become small dicts."""
    if isinstance(value, Ref):
        return {"kind": value.kind, "fields": list(value.fields)}
    if isinstance(value, np.ndarray):
        return {"kind": "array", "shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return describe(value)


def logged(argument: Any) -> Any:
    """Return an argument for the log, as :func:`plain`; an array that is a picture keeps its
    pixels, as PNG, because nothing else can make it again.
    """
    if not isinstance(argument, np.ndarray):
        return plain(argument)
    try:
        picture = Image.fromarray(picture_of(argument))
    except ToolError:
        return plain(argument)
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return {**plain(argument), "png": base64.b64encode(file.getvalue()).decode("ascii")}


def from_plain(value: Any) -> Any:
    """Return the argument that :func:`logged` or :func:`plain` converted, with references again.

    Raises:
        ToolError: a stored picture cannot be read.
    """
    if isinstance(value, Mapping):
        if set(value) == {"kind", "fields"}:
            return Ref(str(value["kind"]), tuple(value["fields"]))
        if value.get("kind") == "array" and "png" in value:
            return _from_png(str(value["png"]))
        return {key: from_plain(item) for key, item in value.items()}
    return [from_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _from_png(text: str) -> NDArray[np.uint8]:
    try:
        return picture_from(base64.b64decode(text), "a stored picture")
    except (MediaError, ValueError) as error:
        raise ToolError(str(error)) from None


def describe(value: Any) -> str:
    """Return a short name of a value for messages."""
    if isinstance(value, Ref):
        return f"a {value.kind}"
    text = repr(value)
    # a message with a few values stays on one line
    return f"{type(value).__name__} {text[:60]}{'…' if len(text) > 60 else ''}"
