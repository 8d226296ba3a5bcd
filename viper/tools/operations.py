"""What the hub asks of each role's backend: one function an operation, over many items.

An item is the tuple of arguments of one request. Results come in the order of the items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.models.vision.roles import (
    DepthEstimator,
    Detection,
    Detector,
    Explainer,
    Matcher,
    VisualAnswerer,
)


@dataclass(frozen=True)
class Operation:
    """One operation; ``together`` tells whether its items gain from being served at once."""

    run: Callable[[Any, Sequence[tuple[Any, ...]]], Sequence[Any]]
    together: bool = True


def _detect(model: Detector, items: Sequence[tuple[Any, ...]]) -> list[list[Detection]]:
    """Phrases asked of one picture go together; every phrase is asked once."""
    asked: dict[int, tuple[Any, dict[str, None]]] = {}
    for encoding, phrase in items:
        asked.setdefault(id(encoding), (encoding, {}))[1][phrase] = None
    found: dict[tuple[int, str], list[Detection]] = {}
    for key, (encoding, phrases) in asked.items():
        for phrase, boxes in zip(phrases, model.detect(encoding, list(phrases)), strict=True):
            found[key, phrase] = boxes
    return [found[id(encoding), phrase] for encoding, phrase in items]


def _answer(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    encodings, questions = zip(*items, strict=True)
    return [text for text, _ in model.answer(list(encodings), list(questions))]


def _explain(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    if not isinstance(model, Explainer):
        return _answer(model, items)
    encodings, questions = zip(*items, strict=True)
    return model.explain(list(encodings), list(questions))


def _firsts(items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [first for (first,) in items]


def _encode(model: Any, items: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
    found: Sequence[Any] = model.encode(_firsts(items))
    return found


def _caption(model: VisualAnswerer, items: Sequence[tuple[Any, ...]]) -> list[str]:
    return model.caption(_firsts(items))


def _images(model: Matcher, items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return list(model.encode_images(_firsts(items)))


def _texts(model: Matcher, items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return list(model.encode_texts(_firsts(items)))


def _depth(model: DepthEstimator, items: Sequence[tuple[Any, ...]]) -> list[Any]:
    return model.depth(_firsts(items))


def _one_by_one(method: str) -> Operation:
    def run(model: Any, items: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(model, method)(*item) for item in items]

    return Operation(run, together=False)


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("detector", "encode"): Operation(_encode),
    ("detector", "detect"): Operation(_detect),
    ("matcher", "encode_images"): Operation(_images),
    ("matcher", "encode_texts"): Operation(_texts),
    ("depth", "depth"): Operation(_depth),
    ("vqa", "encode"): Operation(_encode),
    ("vqa", "answer"): Operation(_answer),
    ("vqa", "explain"): Operation(_explain),
    ("vqa", "caption"): Operation(_caption),
    ("video", "encode"): _one_by_one("encode"),
    ("video", "locate"): _one_by_one("locate"),
    ("video", "describe"): _one_by_one("describe"),
}
"""By role and name. Roles that are not listed, as ``text``, are served request by request."""
