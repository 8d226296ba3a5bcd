"""Tool functions of the API: one function for each tool name.

Each takes the session of the run and the arguments of the program, checks the arguments, turns
references into regions, and asks a model through the session's caches; thresholds are applied here,
after the caches, so that a lower one needs no model call. Semantics follow ViperGPT where
PEERS-style programs rely on them; the docstring of a function names its differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.vision.roles import Detection, EventWindow, Floats, Pixels
from viper.models.vision.vocabulary import UnknownPhraseError
from viper.sandbox import Ref
from viper.schema import PixelBox
from viper.tools import soft_prompt_tools
from viper.tools.alike import find_alike, with_examples
from viper.tools.crops import box_depth, crop_of
from viper.tools.session import Region, ToolSession

# Maximum length of a text argument in characters; longer ones are rejected, because they come from
# a program in a loop and are part of cache keys and logs.
MAX_TEXT = 2_000

# Characters of what a program found out: several pages, and it fits the context of small models.
MAX_INFO = 20_000

# Entries of a list of texts or patches: above the objects of any picture, and a matcher encodes
# them within seconds.
MAX_ITEMS = 1_000


# Examples of ``find_like``: a person marks no more, and each costs time.
MAX_EXAMPLES = 4

# Pixels of the shorter side of an example; less shows neither edges nor a color of its own.
LEAST_EXAMPLE = 8

# Score of a detector from which the matcher is asked: weaker boxes are below all thresholds.
LEAST_LIKELY = 0.05

# Smaller probabilities of a matcher count as this one, so that logarithms are finite.
LEAST_LIKELIHOOD = 1e-6


def find(session: ToolSession, patch: Any, object_name: str) -> list[Ref]:
    """Return patches of the named objects in a patch, best score first; faces by their own model
    if the detector's categories have none.

    An empty result records ``detector.threshold`` if it left out weaker boxes.
    """
    region, name = session.region(patch), _words(session, object_name, "object_name")
    models, threshold = session.toolbox.models, "detector.threshold"
    if name.lower() in ("face", "faces") and "faces" in models.roles:
        vocabulary = models.trait("detector", "vocabulary", None)
        if vocabulary and not vocabulary.starting(["face"]):
            return list(session.nested("find_faces", (patch,), {}))
    boxes = detections(session, region, name)
    matches = [item for item in boxes if session.passes(threshold, item.score)]
    if not matches and name.endswith("s"):
        with suppress(UnknownPhraseError):  # a detector of categories knows plurals itself
            singular = detections(session, region, name[:-1])
            matches = [item for item in singular if session.passes(threshold, item.score)]
            boxes = singular if matches or not boxes else boxes
    session.record_scores(threshold, (item.score for item in boxes), keeps_all=True)
    return [session.patch_ref(region.image_id, item.box) for item in matches]


def find_like(session: ToolSession, examples: Any, patch: Any = None) -> list[Ref]:
    """Return patches of what looks like the examples, best first, the examples included.

    A detector with image guidance searches; without one :func:`viper.tools.alike.find_alike` does.
    The whole picture of the examples is searched unless a patch says where. An empty result records
    ``like.threshold``.
    """
    refs = examples if isinstance(examples, list | tuple) else [examples]
    if not 1 <= len(refs) <= MAX_EXAMPLES:
        raise ToolError(f"find_like takes 1 to {MAX_EXAMPLES} example patches, got {len(refs)}")
    marked = [session.region(ref) for ref in refs]
    source = replace(marked[0], box=(0, 0, *marked[0].image_size))
    if any(each.image_id != source.image_id for each in marked):
        raise ToolError("the examples are patches of several pictures; expected those of one")
    boxes = tuple(each.box for each in marked)
    for x0, y0, x1, y1 in boxes:
        if min(x1 - x0, y1 - y0) < LEAST_EXAMPLE:
            raise ToolError(
                f"an example has {x1 - x0} x {y1 - y0} pixels; expected {LEAST_EXAMPLE} or more "
                "on each side"
            )
    region = source if patch is None else session.region(patch)
    both = (replace(region, box=(0, 0, *region.image_size)), source)
    key = ("like", *(session.media.content_hash(each.image_id) for each in both), boxes)
    models = session.toolbox.models
    if "detector" in models.roles and models.trait("detector", "image_guided", False):
        encodings = [searched_part(session, "detector", each)[1] for each in both]
        found = session.computed("detector", key, "detect_like", *encodings, boxes)
    else:
        picture, other = (session.media.pixels(each.image_id) for each in both)
        corners = np.array(boxes, np.float32)
        found = session.without_model(key, lambda: find_alike(picture, other, corners))
    if region.image_id == source.image_id:
        found = with_examples(found, boxes)
    found = [item for item in found if region.is_whole or centre_inside(item.box, region)]
    session.record_scores("like.threshold", (item.score for item in found), keeps_all=True)
    passing = (one for one in found if session.passes("like.threshold", one.score))
    return [session.patch_ref(region.image_id, one.box) for one in passing]


def detections(session: ToolSession, region: Region, name: str) -> list[Detection]:
    """Return all boxes of a phrase in a region in picture pixels, best first, no threshold
    applied.
    """
    if region.is_empty:
        return []
    if vocabulary := session.toolbox.models.trait("detector", "vocabulary", None):
        vocabulary.named(name)  # refuses an unknown word before the model runs
    place, encoding = searched_part(session, "detector", region)
    boxes = soft_prompt_tools.detect(session, place, encoding, name)
    if boxes is None:
        together = session.toolbox.models.trait("detector", "asks_language_model", False)
        names = session.names if together and name in session.names else (name,)
        found = session.computed("detector", (*place, *names), "detect", encoding, *names)
        boxes = found[names.index(name)]
        session.note_left_out(getattr(boxes, "note", ""))
    left, top = place[1][:2]
    moved = [Detection(shifted(item.box, left, top), item.score) for item in boxes]
    found = [item for item in moved if region.is_whole or centre_inside(item.box, region)]
    if session.toolbox.settings.find_check == "detector+matcher":
        found = _agreed(session, region.image_id, name, found)
    return found


def _agreed(
    session: ToolSession, image_id: str, name: str, boxes: Sequence[Detection]
) -> list[Detection]:
    """Return boxes with the scores that detector and matcher have together, best first.

    Boxes of a name without a word of a family keep the detector's.
    """
    texts = session.toolbox.settings.alike(name)
    likely = [box for box in boxes if box.score >= LEAST_LIKELY] if len(texts) > 1 else []
    places = {box: session.region(session.patch_ref(image_id, box.box)) for box in likely}
    places = {box: place for box, place in places.items() if not place.is_empty}  # a sliver
    if not places:
        return list(boxes)
    values = similarities(session, list(places.values()), texts)
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    scores = np.sqrt([box.score for box in places] * shares[:, 0] / shares.sum(axis=1))
    judged = dict(zip(places, scores.tolist(), strict=True))
    together = [Detection(box.box, judged.get(box, box.score)) for box in boxes]
    return sorted(together, key=lambda box: -box.score)


def searched_part(
    session: ToolSession, role: str, region: Region
) -> tuple[tuple[str, tuple[int, int, int, int]], Any]:
    """Return the place that a model searches for a region, and the model's encoding of it.

    The place is the hash of the picture and a box: the region's own, or that of the whole picture,
    as ``find_scope`` says.
    """
    whole = session.toolbox.settings.find_scope == "whole"
    box = (0, 0, *region.image_size) if whole else region.box
    pixels = _cut(session.media.pixels(region.image_id), box)
    encoding = session.encoded(role, (region.image_id, box), "encode", lambda: pixels)
    return (session.media.content_hash(region.image_id), box), encoding


def shifted(box: Sequence[float], dx: float, dy: float) -> PixelBox:
    """Return the box at another place."""
    x0, y0, x1, y1 = box
    return (x0 + dx, y0 + dy, x1 + dx, y1 + dy)


def centre_inside(box: Sequence[float], region: Region) -> bool:
    """Return True if the centre of a box lies in a region of the same picture."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    x0, y0, x1, y1 = region.box
    return x0 <= x <= x1 and y0 <= y <= y1


def exists(session: ToolSession, patch: Any, object_name: str) -> bool:
    """Check that the object is in the patch; with ``exists_check = detector+vqa`` the VQA must
    agree.
    """
    is_detected = bool(find(session, patch, object_name))
    if is_detected and session.toolbox.settings.exists_check == "detector+vqa":
        answer = simple_query(session, patch, f"is there a {object_name}?")
        return answer.strip().lower().startswith("y")
    return is_detected


def verify_property(
    session: ToolSession, patch: Any, object_name: str, visual_property: str
) -> bool:
    """Check that the patch's object has the property, against the other words of its family.

    A matcher by likelihood judges the property alone.
    """
    name = _words(session, object_name, "object_name")
    word = _words(session, visual_property, "visual_property")
    models = session.toolbox.models
    only_colors = models.trait("matcher", "colors_only", False) and "detector" in models.roles
    if only_colors and (vocabulary := models.trait("detector", "vocabulary", None)):
        vocabulary.named(name)  # raises: the color of what it does not know is no answer
    region = session.region(patch)
    if _matches_by_likelihood(session):
        score = float(likelihoods(session, [region], [f"{word} {name}"])[0, 0])
    else:
        family = property_family(session, word)
        texts = [f"{option} {name}".strip() for option in family]
        values = similarities(session, [region], texts)[0]
        shares = np.exp(values - values.max())
        score = float((shares / shares.sum())[family.index(word)])
    session.record_scores("matcher.threshold", [score])
    return session.passes("matcher.threshold", score)


def property_family(session: ToolSession, word: str) -> tuple[str, ...]:
    """Return the words to compare a property with, itself included; "" stands for none of them."""
    families = session.toolbox.settings.attribute_families
    return next((family for family in families if word in family), (word, ""))


def best_text_match(session: ToolSession, patch: Any, option_list: Any) -> str:
    """Return the option that fits the patch best, or the first of equals."""
    options = _texts(option_list, "option_list")
    texts = [session.toolbox.settings.in_models_words(option) for option in options]
    return options[int(np.argmax(similarities(session, [session.region(patch)], texts)[0]))]


def best_description_from_options(
    session: ToolSession, patch: Any, object_name: str, options: Any
) -> str:
    """Return the option that fits the patch best when put before the object's name."""
    words = _texts(options, "options")
    name = _words(session, object_name, "object_name")
    texts = [f"{session.toolbox.settings.in_models_words(word)} {name}" for word in words]
    return words[int(np.argmax(similarities(session, [session.region(patch)], texts)[0]))]


def best_image_match(session: ToolSession, list_patches: Any, content: Any) -> int:
    """Return the index of the patch that fits the content (one text or several) best."""
    if not isinstance(list_patches, list | tuple) or not 1 <= len(list_patches) <= MAX_ITEMS:
        raise ToolError(f"best_image_match needs 1 to {MAX_ITEMS:,} patches")
    texts = _texts([content] if isinstance(content, str) else content, "content")
    regions = [session.region(patch) for patch in list_patches]
    return int(np.argmax(similarities(session, regions, texts).mean(axis=1)))


def simple_query(session: ToolSession, patch: Any, question: str | None = None) -> str:
    """Return the VQA model's answer about a patch, or the video model's about a segment."""
    if isinstance(patch, Ref) and patch.kind in ("segment", "video"):
        return caption_video(session, patch, question)
    region = session.region(patch)
    text = "what is this?" if question is None else _text(question, "question")
    encoding = vqa_encoding(session, region)
    place = (session.media.content_hash(region.image_id), region.box)
    answer = soft_prompt_tools.answer(session, place, encoding, text)
    if answer is None:
        answer = session.computed("vqa", (*place, text), "answer", encoding, text)
    return answer


def complex_query(session: ToolSession, patch: Any, question: str) -> str:
    """Return the VQA model's answer as a sentence, or a short one if the model has no other."""
    region = session.region(patch)
    query = _text(question, "question")
    key = ("explain", session.media.content_hash(region.image_id), region.box, query)
    return session.computed("vqa", key, "explain", vqa_encoding(session, region), query)


def caption_image(session: ToolSession, patch: Any) -> str:
    """Return a sentence by the VQA model about a patch; strategies open with it."""
    region = session.region(patch)
    encoding = vqa_encoding(session, region)
    key = ("caption", session.media.content_hash(region.image_id), region.box)
    return session.computed("vqa", key, "caption", encoding)


def compute_depth(session: ToolSession, patch: Any) -> float:
    """Return the median depth of the patch; larger is farther."""
    region = session.region(patch)
    depth = depth_map(session, region.image_id)
    if region.is_empty:
        raise ToolError("compute_depth: the patch is empty")
    return box_depth(depth, region.box)


def depth_map(session: ToolSession, image_id: str) -> Floats:
    """Return the depth of every pixel of a picture, ``[H, W]``; for web pages, no API lists it."""
    picture = session.media.pixels(image_id)
    return session.encoded("depth", (image_id, None), "depth", lambda: picture)


def locate_event(session: ToolSession, segment: Any, event: str) -> list[int]:
    """Return the frames ``[start, end)`` of the event in the segment; equal if it does not
    occur.
    """
    _, start, _ = session.segment(segment)
    inside = windows(session, segment, event)
    session.record_scores("video.threshold", (item.score for item in inside))
    for item in inside:  # best first
        if session.passes("video.threshold", item.score):
            return [item.start, item.end]
    return [start, start]


def windows(session: ToolSession, segment: Any, event: str) -> list[EventWindow]:
    """Return every window of an event that overlaps a segment, cut to it, best first.

    Raises:
        ToolError: no segment, no event, or no video in the query.
    """
    name, start, end = session.segment(segment)
    phrase, encoding = _words(session, event, "event"), video_encoding(session, name)
    key = (session.media.content_hash(name), phrase)
    return [
        EventWindow(max(item.start, start), min(item.end, end), item.score)
        for item in session.computed("video", key, "locate", encoding, phrase)
        if min(item.end, end) > max(item.start, start)
    ]


def caption_video(session: ToolSession, segment: Any, question: str | None = None) -> str:
    """Return sentences on what happens in the segment, in order of time."""
    name, start, end = session.segment(segment)
    if start >= end:
        return ""
    query = None if question is None else _words(session, question, "question")
    encoding = video_encoding(session, name)
    takes_names = session.toolbox.models.trait("video", "takes_names", False)
    asked = (start, end, query, *((session.look_for,) if session.look_for and takes_names else ()))
    key = (session.media.content_hash(name), *asked)
    return session.computed("video", key, "describe", encoding, *asked)


def llm_query(
    session: ToolSession, question: str, context: str | None = None, long_answer: bool = True
) -> str:
    """Return the language model's own answer to a question, without a picture."""
    query = _text(question, "question")
    asked = {"context": context, "long_answer": bool(long_answer)}
    key = ("query", query, *asked.values())
    return session.computed("text", key, "answer", query, **asked)


def select_answer(session: ToolSession, info: Any, question: str, options: Any) -> str:
    """Return the option that follows from the information, according to the language model.

    The result is exactly one of the options. Without options it is the information itself.
    """
    facts = information(info)
    if isinstance(options, list | tuple) and not options:
        return facts
    choices = _texts(options, "options")
    key = ("select", facts, question, tuple(choices))
    return session.computed("text", key, "select", facts, str(question), choices)


def process_guesses(session: ToolSession, question: str, guesses: Any) -> str:
    """Return the guess that all agree on, or the one that the language model selects."""
    texts = [guess for guess in _texts(guesses, "guesses") if guess.strip()]
    if not texts:
        raise ToolError("process_guesses needs at least one guess that is not empty")
    if len({guess.strip().lower() for guess in texts}) == 1:
        return texts[0]
    return select_answer(session, ", ".join(texts), question, list(dict.fromkeys(texts)))


def pixels(session: ToolSession, patch: Any) -> Pixels:
    """Return a private copy of the patch's pixels, ``uint8 [3, H, W]``."""
    region = session.region(patch)
    part = _cut(session.media.pixels(region.image_id), region.box)
    return np.ascontiguousarray(part.transpose(2, 0, 1))


def similarities(
    session: ToolSession, regions: Sequence[Region], texts: Sequence[str]
) -> np.ndarray[Any, Any]:
    """Return scaled image-text similarities ``[regions, texts]``, or log-probabilities.

    The matcher uses soft prompts only for a text that names a learned concept. A learned concept
    therefore changes the similarity of no other text.
    """
    if _matches_by_likelihood(session):
        return np.log(np.maximum(likelihoods(session, regions, texts), LEAST_LIKELIHOOD))
    images = np.stack([matcher_embedding(session, region) for region in regions])
    text_rows = [text_embedding(session, text) for text in texts]
    scale = float(session.toolbox.models.trait("matcher", "logit_scale"))
    scores: np.ndarray[Any, Any] = scale * images @ np.stack(text_rows).T
    for column, text in enumerate(texts):
        if not soft_prompt_tools.concepts_named_in(session, "matcher", "match", text):
            continue
        for row, region in enumerate(regions):
            look = partial(region_crop, session, region)
            cosine = soft_prompt_tools.match(session, region, text, images[row], look)
            if cosine is not None:
                scores[row, column] = scale * cosine
    return scores


def likelihoods(session: ToolSession, regions: Sequence[Region], texts: Sequence[str]) -> Floats:
    """Return the probability of each text for each region, ``[regions, texts]``, by a matcher that
    judges pairs.
    """
    places = tuple((session.media.content_hash(region.image_id), region.box) for region in regions)
    return session.computed_late(
        "matcher",
        ("likelihood", places, tuple(texts)),
        "likelihood",
        lambda: ([region_crop(session, region) for region in regions], list(texts)),
    )


def _matches_by_likelihood(session: ToolSession) -> bool:
    return bool(session.toolbox.models.trait("matcher", "by_likelihood", False))


def text_embedding(session: ToolSession, text: str) -> Floats:
    """Return the matcher's embedding of a text, float32 [D]."""
    return session.computed("matcher", ("text", text), "encode_texts", text)


def matcher_embedding(session: ToolSession, region: Region) -> Floats:
    """Return the matcher's embedding of a region, float32 [D]."""
    place = (region.image_id, region.box)
    return session.encoded("matcher", place, "encode_images", lambda: region_crop(session, region))


def vqa_encoding(session: ToolSession, region: Region) -> Any:
    """Return the VQA model's encoding of a region."""
    place = (region.image_id, region.box)
    return session.encoded("vqa", place, "encode", lambda: region_crop(session, region))


def video_encoding(session: ToolSession, video_id: str) -> Any:
    """Return the video model's encoding of a video of :meth:`ToolSession.segment`."""
    return session.encoded(
        "video", (video_id, None), "encode", lambda: session.media.frames(video_id)
    )


def region_crop(session: ToolSession, region: Region) -> Pixels:
    """Return the pixels that a crop model sees: a whole picture unchanged, a part as the settings
    ``crop_margin`` and ``crop_shape`` say.
    """
    picture = session.media.pixels(region.image_id)
    if region.is_whole:
        return picture
    if region.is_empty:
        raise ToolError("the patch is empty: it has no pixels")
    settings = session.toolbox.settings
    return crop_of(picture, region.box, settings.crop_margin, settings.crop_shape)


def _cut(array: Any, box: Sequence[int]) -> Any:
    x0, y0, x1, y1 = box
    return array[y0:y1, x0:x1]


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ToolError(f"{name} must be text, got {type(value).__name__}")
    if not value.strip() or len(value) > MAX_TEXT:
        raise ToolError(f"{name} must have 1 to {MAX_TEXT} characters, got {len(value)}")
    return value.strip()


def _words(session: ToolSession, value: Any, name: str) -> str:
    """Return a text in the words of the models, see ``ToolSettings.synonyms``."""
    return session.toolbox.settings.in_models_words(_text(value, name))


def _texts(values: Any, name: str) -> list[str]:
    if not isinstance(values, list | tuple) or not values:
        raise ToolError(f"{name} must be a list of texts with at least one entry")
    if len(values) > MAX_ITEMS:
        raise ToolError(f"{name} has {len(values):,} entries; at most {MAX_ITEMS:,} are compared")
    return [_text(str(value), name) for value in values]


def information(info: Any) -> str:
    """Return the info argument of a program (a text, a dict or a list of findings) as text."""
    if isinstance(info, dict):
        text = " ".join(f"{key}: {value}." for key, value in info.items())
    elif isinstance(info, list | tuple):
        text = " ".join(str(value) for value in info)
    else:
        text = "" if info is None else str(info)
    if len(text) > MAX_INFO:
        raise ToolError(f"info has {len(text):,} characters; at most {MAX_INFO:,} are read")
    return text


TOOL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (
        find, find_like, exists, verify_property, best_text_match, best_description_from_options,
        best_image_match, simple_query, complex_query, caption_image, compute_depth, locate_event,
        caption_video, llm_query, select_answer, process_guesses, pixels,
    )
}  # fmt: skip
