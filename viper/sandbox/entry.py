"""Finds the entry point of a program and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

# Names under which a program may declare each argument.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "image": ("image", "img", "picture", "image_patch", "patch"),
    "image_list": ("image_list", "images", "image_patches", "patches", "pictures"),
    "video": ("video", "video_segment", "clip", "segment"),
    "question": ("question", "query"),
    "possible_answers": ("possible_answers", "options", "choices", "answers"),
    "fields": ("fields", "schema"),
}

# Candidates for a single parameter with an unknown name; the first one present is used.
MEDIA = ("image", "video", "image_list")

# Variables in which a script leaves its answer; line programs (VisProg, CLOVA) use the last two.
ANSWER_NAMES = ("answer", "final_answer", "result", "FINAL_RESULT", "FINAL_ANSWER")

_CANONICAL = {alias: name for name, aliases in ALIASES.items() for alias in aliases}


def bind(function: Callable[..., Any], args: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
    """Return the arguments to call ``function`` with: a dict of keywords or a list of positions.

    A parameter gets the argument of its own name, or else the argument that it is an alias of. The
    first parameter with an unknown name gets the media.
    """
    media = next((args[name] for name in MEDIA if name in args), None)
    if type(function) is not FunctionType:
        return [media]
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    optional = set(positional[code.co_argcount - len(function.__defaults__ or ()) :])
    optional |= set(function.__kwdefaults__ or {})
    bound: dict[str, Any] = {}
    for name in (*positional, *keyword_only):
        canonical = name if name in args else _CANONICAL.get(name, name)
        if canonical in args:
            bound[name] = args[canonical]
        elif name in positional[:1] and name not in optional and media is not None:
            bound[name] = media
    if code.co_posonlyargcount:
        return [bound[name] for name in positional if name in bound]
    return bound
