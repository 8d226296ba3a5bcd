"""Tool functions that segment objects and edit pictures.

As in :mod:`viper.tools.tool_functions`, each takes the session of the run and the arguments of the
program. An edited picture is stored with the media of the query, and the tool returns an image
reference. The same edit has the same name in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.edited import Origin, Tag, outline_of
from viper.models.vision.roles import Detection, Mask, Pixels
from viper.sandbox import Ref
from viper.schema import Box
from viper.tools import soft_prompt_tools
from viper.tools.edits import (
    blur_outside,
    box_mask,
    color_pop,
    cover_boxes,
    draw_tagged,
    emoji_picture,
    paste_inside,
)
from viper.tools.session import Region, ToolSession
from viper.tools.tool_functions import _cut, _text, centre_inside, searched_part

# Maximum length of a label in characters; it is part of references, logs and pages.
MAX_LABEL = 200

# Margin of ``replace`` around an outline, as a share of the picture's shorter side.
#
# An object's own colour shines into the pixels around it.
MARGIN_SHARE = 0.01

# Seeds that every generator of random numbers takes.
_SEED_LIMIT = 1 << 31


def segment(session: ToolSession, patch: Any) -> list[Ref]:
    """Return the objects in a patch with outline and label, best score first.

    Like detection it runs on the whole picture or on the crop (``find_scope``). An empty result
    records ``segmenter.threshold`` if it left out weaker segments.
    """
    region = session.region(patch)
    if region.is_empty:
        return []
    place, encoding = searched_part(session, "segmenter", region)
    segments = soft_prompt_tools.segments(session, place, encoding)
    if segments is None:
        segments = session.computed("segmenter", place, "segments", encoding, None)
    threshold = session.threshold("segmenter.threshold")
    refs, scores = [], []
    for item in sorted(segments, key=lambda each: -each.score):
        outline = outline_of(item.mask, place[1][:2], region.image_size)
        if outline is None or not centre_inside(outline.box, region):
            continue
        scores.append(item.score)
        if item.score >= threshold:
            name, label = session.media.edits.add_outline(outline), item.label[:MAX_LABEL]
            refs.append(session.patch_ref(region.image_id, outline.box, name, label))
    session.record_scores("segmenter.threshold", scores, keeps_all=True)
    return refs


def find_faces(session: ToolSession, patch: Any) -> list[Ref]:
    """Return the faces in a patch, best score first, labelled ``face``."""
    region = session.region(patch)
    if region.is_empty:
        return []
    content = session.media.content_hash(region.image_id)
    pixels = _cut(session.media.pixels(region.image_id), region.box)
    faces: list[Detection] = session.computed("faces", (content, region.box), "faces", pixels)
    session.record_scores("faces.threshold", (face.score for face in faces), keeps_all=True)
    left, top = region.box[:2]
    return [
        session.patch_ref(region.image_id, (x0 + left, y0 + top, x1 + left, y1 + top), label="face")
        for (x0, y0, x1, y1), score in ((face.box, face.score) for face in faces)
        if score >= session.threshold("faces.threshold")
    ]


def keep_color(session: ToolSession, image: Any, objects: Any) -> Ref:
    """Return the picture in grey except for the objects."""
    canvas = _canvas(session, image, objects)
    return canvas.store(color_pop(canvas.pixels, canvas.mask()))


def blur_background(session: ToolSession, image: Any, objects: Any) -> Ref:
    """Return the picture blurred except for the objects."""
    canvas = _canvas(session, image, objects)
    return canvas.store(blur_outside(canvas.pixels, canvas.mask()))


def replace(session: ToolSession, image: Any, objects: Any, prompt: str, seed: int = 0) -> Ref:
    """Return the picture with the content of the prompt painted in place of the objects.

    Pixels outside their outlines, with a small margin, stay unchanged whatever the model paints.
    """
    canvas, text = _canvas(session, image, objects), _text(prompt, "prompt")
    if not isinstance(seed, int) or not 0 <= seed < _SEED_LIMIT:
        raise ToolError(f"seed must be a whole number from 0 to {_SEED_LIMIT - 1}")
    mask = canvas.mask(with_margin=True)
    content = session.media.content_hash(canvas.region.image_id)
    mask_key = (content, canvas.region.box, canvas.keys())
    inputs = (canvas.pixels, mask, text, seed)
    key: tuple[Any, ...] = (*mask_key, text, seed)
    prompts = soft_prompt_tools.inpainter_prompts(session, text)
    if prompts:
        key = (*key, *soft_prompt_tools.prompt_keys(prompts))
        painting = session.computed("inpainter", key, "inpaint_adapted", *inputs, prompts)
    else:
        painting = session.computed("inpainter", key, "inpaint", *inputs)
    return canvas.store(paste_inside(canvas.pixels, mask, painting))


def put_emoji(session: ToolSession, image: Any, objects: Any, emoji: str) -> Ref:
    """Return the picture with an emoji over each object."""
    canvas = _canvas(session, image, objects)
    picture = emoji_picture(_text(emoji, "emoji"))
    left, top = canvas.region.box[:2]
    boxes = [
        (x0 - left, y0 - top, x1 - left, y1 - top)
        for x0, y0, x1, y1 in (place.box for _, place in canvas.objects)
    ]
    return canvas.store(cover_boxes(canvas.pixels, boxes, picture))


def tag(session: ToolSession, image: Any, objects: Any) -> Ref:
    """Return the picture with the objects' boxes and labels drawn on it, and also store them as
    tags.
    """
    canvas = _canvas(session, image, objects, least=0)
    part_tags, picture_tags = [], []
    left, top = canvas.region.box[:2]
    for ref, place in canvas.objects:
        x0, y0, x1, y1 = _exact_box(ref, place)
        label = str(ref.fields[6])[:MAX_LABEL] if len(ref.fields) > 6 else ""
        if x0 >= x1 or y0 >= y1:
            continue
        part_tags.append(Tag(label, (x0 - left, y0 - top, x1 - left, y1 - top)))
        origin = session.media.origin(place.image_id)
        picture_tags.append(
            Tag(label, (x0 + origin.x, y0 + origin.y, x1 + origin.x, y1 + origin.y))
        )
    return canvas.store(draw_tagged(canvas.pixels, part_tags), picture_tags)


@dataclass(frozen=True)
class _Canvas:
    """Part of a picture to edit, and the objects as references with their regions."""

    session: ToolSession
    region: Region
    pixels: Pixels
    objects: list[tuple[Ref, Region]]

    def mask(self, with_margin: bool = False) -> Mask:
        """Return bool [h, w] of the part: True inside any object, or its box if it has no
        outline.
        """
        whole = box_mask(self.region.image_size, (0, 0, 0, 0))
        for ref, place in self.objects:
            mask = self._mask_of(ref, place)
            steps = round(MARGIN_SHARE * min(self.region.image_size))
            if with_margin and _outline_name(ref) and steps:
                from scipy.ndimage import binary_dilation

                mask = binary_dilation(mask, iterations=steps)
            whole |= mask
        return _cut(whole, self.region.box)

    def keys(self) -> tuple[Any, ...]:
        """Return all that the mask depends on, as part of a cache key."""
        return tuple((_outline_name(ref), place.box) for ref, place in self.objects)

    def store(self, pixels: Pixels, tags: Sequence[Tag] | None = None) -> Ref:
        """Store the edited part and return its reference."""
        base = self.session.media.origin(self.region.image_id)
        x, y = self.region.box[:2]
        origin = Origin(base.image_id, base.x + x, base.y + y)
        name = self.session.media.edits.add(pixels, origin, tags)
        return Ref("image", (name, pixels.shape[1], pixels.shape[0]))

    def _mask_of(self, ref: Ref, place: Region) -> Mask:
        name = _outline_name(ref)
        if not name:
            return box_mask(place.image_size, place.box)
        try:
            outline = self.session.media.edits.outline(name)
        except KeyError:
            raise ToolError(f"there is no outline {name[:60]!r} in this query") from None
        if outline.size != place.image_size:
            raise ToolError("the outline is of a picture of another size")
        return outline.mask()


def _canvas(session: ToolSession, image: Any, objects: Any, least: int = 1) -> _Canvas:
    """Return the checked arguments of an edit.

    Raises:
        ToolError: an empty part, no objects, or objects of a picture of another size.
    """
    region = session.region(image)
    if region.is_empty:
        raise ToolError("the patch is empty: it has no pixels")
    if not isinstance(objects, list | tuple) or len(objects) < least:
        raise ToolError("there is no object to change the picture at")
    places = [(ref, session.region(ref)) for ref in objects]
    if any(place.image_size != region.image_size for _, place in places):
        raise ToolError("the objects are in a picture of another size; find them in this one")
    pixels = np.ascontiguousarray(_cut(session.media.pixels(region.image_id), region.box))
    return _Canvas(session, region, pixels, places)


def _outline_name(ref: Ref) -> str:
    return str(ref.fields[5]) if ref.kind == "patch" and len(ref.fields) > 5 else ""


def _exact_box(ref: Ref, place: Region) -> tuple[float, float, float, float]:
    """Return the box to the fraction of a pixel, clipped to its picture."""
    width, height = place.image_size
    if ref.kind != "patch":
        return (0.0, 0.0, float(width), float(height))
    x0, y0, x1, y1 = Box(*map(float, ref.fields[1:5])).to_pixels(height)
    limits = (width, height, width, height)
    sides = zip((x0, y0, x1, y1), limits, strict=True)
    x0, y0, x1, y1 = (round(min(max(side, 0.0), float(most)), 2) for side, most in sides)
    return (x0, y0, x1, y1)


PICTURE_TOOLS: dict[str, Callable[..., Any]] = {
    "segment": segment,
    "find_faces": find_faces,
    "color_pop": keep_color,
    "blur_background": blur_background,
    "replace": replace,
    "put_emoji": put_emoji,
    "tag": tag,
}
