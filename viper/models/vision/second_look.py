"""Soft prompts of detectors and segmenters: a second pass over the cut-outs of likely objects.

In the whole picture an object covers a few patches, which do not show its new features (the
stripes, the edges of a pyramid). So the backend picks likely objects (:func:`likely_objects`, or
the segments that a network finds without knowing their names), enlarges each (:func:`cut_out`) and
runs it through its image tower once more. The outputs are pooled to one description per object
(:func:`patch_features`, :func:`mask_features`). The soft prompt of a concept is a query and a shift
over descriptions and gives a probability; a detector's also moves the box. No weight changes.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.2 and 8.3. Differs: there 100 vectors are set
beside the inputs of the decoder and trained by its losses.

Both forms can be learned (:mod:`viper.tuning.soft_prompts.decoder` has that of the paper).

OWL has no decoder; its class head reads each patch alone. Alternatives for it, as the share of 40
validation scenes that are all right (seed 0): a query over the patches of the whole picture reaches
striped 0.15, white 0.2, pyramid 0.38, pink 0.95. Vectors within the late layers (16 of them, or
low-rank changes of all their matrices) overfit seven pictures, pyramid 0.25. A second pass over the
true boxes reaches 0.78, 0.95, 0.53 and 1.00.

Put before the memory of the shipped segmenter's decoder (100 steps of Adam at 0.03 or 0.1, two
concepts), vectors overfit seven pictures (loss from 5 to 0.3 or less), and separated objects of new
pictures no better than chance: areas under the curve of 0.49 to 0.56. Its own masks needed no
training. Queries over the maps of the whole picture, in which an object is a few cells, recognised
0.42 of new objects among twelve concepts, with a higher score than 99 % of the others; over
cut-outs it is 0.74.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from viper.models.libraries import Image, Tensor, functional, torch
from viper.models.vision.boxes import NMS_IOU, clip_corners, overlaps
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.soft_prompts import AdaptableDetector, named

# Logit below which a box is not an object: a probability of 5 %, so that new kinds of objects,
# which the detector doubts, still get a second pass.
LEAST_OBJECTNESS = -3.0

# Most boxes per picture in the second pass, because each costs a run of the image tower. The
# likeliest come first, so in a crowded picture only doubtful boxes are left out.
MOST_PROPOSALS = 20

# Side of a cut-out as a multiple of the box's longer side, so that a box that is a little too tight
# still shows the object's outline.
CONTEXT = 1.25

# Rows and columns of places that the patches of the middle and the last layer are pooled to. The
# middle layer shows texture and outline and gets more places. Stored prompts have these sizes.
MIDDLE_PLACES, LAST_PLACES = 6, 4

# Rows and columns of patches at a cut-out's edge, which CONTEXT fills with the surroundings.
EDGE = 2

# Size limit of a picture kept for the second pass, as a multiple of the network's input size: a
# cut-out of half the picture then has all the detail that the network takes, and a large photograph
# does not fill the cache of encodings.
KEPT_SIDES = 2

# Places of each part of a patch description: the middle and the last layer by places, and the
# deviation of the patches of each.
BLOCKS = (MIDDLE_PLACES**2, LAST_PLACES**2, 1, 1)
PLACES = sum(BLOCKS)

# Replaces a concept at the end of a phrase when the rest of the phrase is detected alone, because
# an adjective alone is no phrase that a detector was trained on.
GENERAL_NOUN = "object"

# Largest move of a box as a share of its sides, and largest logarithm of its growth. A proposal
# that needs more is of another object.
MOST_MOVED = 0.5

# Numbers of a detector's prompt per box: its score, and four numbers by which it moves.
PARTS = 5

# A segment with a higher probability of a concept gets its name: it is likelier than not.
CUT = 0.5

# Width of the rows of a segmenter's prompt, because a query is longer than any model's width.
ROW = 256

# Places per side of a masked cut-out, of its outline, its pixels, and each feature map. The outline
# tells shapes apart and costs one channel only; maps have hundreds. Stored prompts have these
# sizes.
_OUTLINE, _PIXELS, _CELLS = 12, 6, 4

# Side in pixels of the window in which an object's colour may mix with the background, by
# antialiasing and by enlarging a small cut-out.
_EDGE = 9


@dataclass(frozen=True, eq=False)
class Proposals:
    """Boxes of likely objects in a picture, one per object.

    Attributes:
        boxes: float32 [N, 4], (x0, y0, x1, y1) in pixels, the likeliest object first.
        features: float32 [N, D], the image tower's features of the cut-outs, place by place.
        members: bool [N, P], the patches of the picture that propose about the same box.
    """

    boxes: Floats
    features: Floats
    members: NDArray[np.bool_]

    def best(self, scores: Floats) -> Floats:
        """Return the best score [P] of each box's patches, float32 [N]."""
        chosen = np.where(self.members, scores[None], 0.0)
        return chosen.max(axis=1, initial=0.0).astype(np.float32)


@runtime_checkable
class ProposalDetector(AdaptableDetector, Protocol):
    """Detector with proposals, which training needs beside the methods for tools."""

    def proposals(self, encoding: Any) -> Proposals:
        """Return the likely objects of a picture after a second pass."""


@dataclass(frozen=True, eq=False)
class Descriptions:
    """Descriptions of segments.

    Attributes:
        features: float32 [N, D].
        widths: of its parts, which make D.
    """

    features: Floats
    widths: tuple[int, ...]


def likely_objects(boxes: Floats, objectness: Floats) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the patches whose boxes get a second pass, and the patches that propose the same
    boxes.

    Args:
        boxes: float32 [P, 4] in pixels.
        objectness: float32 [P], logits.

    Returns:
        N patches, the likeliest first, and bool [N, P].
    """
    order = np.argsort(-objectness, kind="stable")
    sides = (boxes[:, 2:] - boxes[:, :2]).min(axis=1)
    order = order[(sides[order] > 0) & (objectness[order] >= LEAST_OBJECTNESS)]
    patches: list[int] = []
    members: list[NDArray[np.bool_]] = []
    while len(order) and len(patches) < MOST_PROPOSALS:
        best = int(order[0])
        same = overlaps(boxes[best : best + 1], boxes)[0] > NMS_IOU
        same[best] = True
        patches.append(best)
        members.append(same)
        order = order[~same[order]]
    return patches, np.array(members, np.bool_).reshape(len(patches), len(boxes))


def shrink(pixels: Pixels, most: int) -> Pixels:
    """Return a copy of a picture, scaled down if its longer side exceeds ``most``."""
    height, width = pixels.shape[:2]
    scale = most / max(height, width)
    if scale >= 1:
        return pixels.copy()
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(picture.resize(size, Image.Resampling.BILINEAR))


def cut_out(pixels: Pixels, box: Floats, side: int) -> Pixels:
    """Return a box with some context, uint8 [side, side, 3]; black beyond the picture's edges."""
    centre, half = (box[:2] + box[2:]) / 2, CONTEXT / 2 * float((box[2:] - box[:2]).max())
    corners = (*(centre - half).tolist(), *(centre + half).tolist())
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    extent, smooth = Image.Transform.EXTENT, Image.Resampling.BILINEAR
    return np.asarray(picture.transform((side, side), extent, corners, smooth))


def patch_features(middle: Tensor, last: Tensor) -> Floats:
    """Describe cut-outs by the patches of two layers, float32 [N, D]: by places, then deviations.

    A repeated pattern (stripes, spots) differs from place to place on an object, but its patches
    have the same deviation wherever the pattern begins.

    Args:
        middle, last: float [N, P, W], the patches in rows from the top-left one.
    """
    placed, deviating = [], []
    for patches, places in ((middle, MIDDLE_PLACES), (last, LAST_PLACES)):
        count, number, width = patches.shape
        side = round(number**0.5)
        even = functional.layer_norm(patches.float(), (width,))
        grid = even.transpose(1, 2).reshape(count, width, side, -1)
        means = functional.adaptive_avg_pool2d(grid, places).flatten(2)  # (N, W, places * places)
        placed.append(means.transpose(1, 2).flatten(1).cpu().numpy())
        edge = min(EDGE, (side - 1) // 2)
        inner = even.reshape(count, side, -1, width)[:, edge : side - edge, edge : side - edge]
        deviating.append(inner.flatten(1, 2).std(1, correction=0).cpu().numpy())
    return np.concatenate((*placed, *deviating), axis=1)


def mask_features(covers: Tensor, maps: Sequence[Tensor]) -> Descriptions:
    """Describe masked cut-outs, without the background of their objects.

    A description is, in this order, the mean and the deviation of the object's pixels with products
    of the means; its outline by places; its pixels by places; then for each feature map of the
    backbone its values by places, its mean over the object, and its deviation there, which is the
    texture.

    Args:
        covers: float ``[N, 1, S, S]``, the share of each pixel that is the object's.
        maps: float ``[N, C, h, w]`` each: the cut-outs as the network takes them, then the
            backbone's maps of them.
    """

    def placed(values: Tensor, places: int) -> Tensor:
        return functional.adaptive_avg_pool2d(values, places).flatten(1)

    covers, pixels = covers.float(), maps[0].float()
    inside = (covers > 0.5).float()  # mostly the object's, as a mask scaled up has soft edges
    inner = 1 - functional.max_pool2d(1 - inside, _EDGE, 1, _EDGE // 2)
    # Without four edge lengths of inner pixels an object is thin, and its edge counts too.
    is_thin = inner.sum(dim=(1, 2, 3), keepdim=True) < 4 * _EDGE
    mean, spread = _within(torch.where(is_thin, inside, inner), pixels)
    # The products of the means let a linear query tell colours apart that lie between others.
    first, second = torch.triu_indices(mean.shape[1], mean.shape[1])
    parts = [mean, spread, mean[:, first] * mean[:, second]]
    parts = [torch.cat(parts, dim=1), placed(covers, _OUTLINE), placed(pixels * covers, _PIXELS)]
    for values in maps[1:]:
        channels_last = values.float().movedim(1, -1)
        even = functional.layer_norm(channels_last, values.shape[1:2]).movedim(-1, 1)
        cover = functional.adaptive_avg_pool2d(covers, (values.shape[-2], values.shape[-1]))
        parts += [placed(even * cover, _CELLS), *_within(cover, even)]
    features: Floats = torch.cat(parts, dim=1).cpu().numpy().astype(np.float32)
    return Descriptions(features, tuple(part.shape[1] for part in parts))


def _within(covers: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation ``[N, C]`` of a map over objects, by the shares of its
    cells.
    """
    total = covers.sum(dim=(2, 3)).clamp(min=1e-6)
    mean = (values * covers).sum(dim=(2, 3)) / total
    away = (values - mean[..., None, None]).square()
    return mean, ((away * covers).sum(dim=(2, 3)) / total).sqrt()


def detector_prompt(query: Floats, shift: float, moves: Floats | None = None) -> Floats:
    """Return a soft prompt, float32 [PARTS * (PLACES + 1), W], in the image tower's own width W.

    Each part has a vector for each place of a cut-out, two more for the deviations of ``BLOCKS``,
    and one that repeats the part's shift.

    Args:
        query: float32 [D], D = PLACES * W.
        shift: added to the query's products.
        moves: float32 [4, D + 1] in the same form, the shift last: the move of the box's centre as
            a share of its sides, and the logarithms of its growth; None: no move.
    """
    first = np.append(query, shift)[None]
    whole = np.concatenate((first, np.zeros((4, first.shape[1])) if moves is None else moves))
    parts = whole[:, :-1].reshape(PARTS, PLACES, -1)
    shifts = np.broadcast_to(whole[:, -1:, None], (PARTS, 1, parts.shape[-1]))
    packed = np.concatenate((parts, shifts), axis=1).reshape(PARTS * (PLACES + 1), -1)
    return packed.astype(np.float32)


def segmenter_prompt(query: Floats, shift: float) -> Floats:
    """Return a query, its shift, and zeros up to the rows' end, float32 ``[R, ROW]``."""
    whole = np.append(query, shift).astype(np.float32)
    return np.pad(whole, (0, -len(whole) % ROW)).reshape(-1, ROW)


def score_proposals(proposals: Proposals, vectors: Floats) -> Floats:
    """Return the probability of each box to show the concept, float32 [N] in [0, 1].

    Args:
        vectors: float32, as :func:`detector_prompt` returns them.

    Raises:
        ValueError: a prompt of another detector.
    """
    return _probability(_detector_products(proposals, vectors)[:, 0])


def score_segments(descriptions: Floats, vectors: Floats) -> Floats:
    """Return the probability of each segment to show the concept, float32 ``[N]`` in [0, 1].

    Args:
        descriptions: float32 ``[N, D]``.
        vectors: float32, as :func:`segmenter_prompt` returns it.

    Raises:
        ValueError: a prompt of another segmenter.
    """
    width = descriptions.shape[-1]
    _require_shape(vectors, (-(-(width + 1) // ROW), ROW), "segmenter")
    flat = vectors.ravel()
    return _probability(descriptions @ flat[:width] + flat[width])


def _probability(logits: Floats) -> Floats:
    # At 60 float32 has long reached 1, and exp of much more would overflow.
    return (1 / (1 + np.exp(-logits.clip(-60, 60)))).astype(np.float32)


def _detector_products(proposals: Proposals, vectors: Floats) -> Floats:
    """Return a prompt's products with features, the shifts added, float32 [N, PARTS]."""
    features = proposals.features
    _require_shape(vectors, (PARTS * (PLACES + 1), features.shape[1] // PLACES), "detector")
    parts = vectors.reshape(PARTS, PLACES + 1, -1)
    queries, shifts = parts[:, :-1].reshape(PARTS, -1), parts[:, -1].mean(axis=1)
    return features @ queries.T + shifts


def _require_shape(vectors: Floats, expected: tuple[int, int], model: str) -> None:
    if vectors.shape != expected:
        raise ValueError(f"a prompt of shape {vectors.shape}; this {model}'s are {expected}")


def move_boxes(proposals: Proposals, vectors: Floats, size: tuple[int, int]) -> Floats:
    """Return the boxes after a prompt's moves, clipped to the picture, float32 [N, 4].

    A box head draws boxes of known objects; new objects have other outlines.

    Args:
        vectors: float32, as :func:`detector_prompt` returns them.
        size: (height, width) in pixels.

    Source: Girshick et al. 2014 (R-CNN), appendix C, for the parameters of a box.
    """
    moves = _detector_products(proposals, vectors)[:, 1:].clip(-MOST_MOVED, MOST_MOVED)
    sides = proposals.boxes[:, 2:] - proposals.boxes[:, :2]
    centres = (proposals.boxes[:, :2] + proposals.boxes[:, 2:]) / 2 + moves[:, :2] * sides
    halves = sides * np.exp(moves[:, 2:]) / 2
    return clip_corners(np.concatenate((centres - halves, centres + halves), axis=1), size)


def moves_between(boxes: Floats, targets: Floats) -> Floats:
    """Return the moves of :func:`move_boxes` from boxes to the target boxes, float32 [N, 4]."""
    sides, goal = boxes[:, 2:] - boxes[:, :2], targets[:, 2:] - targets[:, :2]
    shift = (targets[:, :2] + targets[:, 2:] - boxes[:, :2] - boxes[:, 2:]) / 2 / sides
    moves: Floats = np.concatenate((shift, np.log(goal / sides)), axis=1).astype(np.float32)
    return moves.clip(-MOST_MOVED, MOST_MOVED)


def rest_of(phrase: str, concepts: Collection[str]) -> str:
    """Return the part of a phrase beside the concepts that it names.

    ``red pyramid`` leaves ``red object``, ``striped cube`` leaves ``cube``, ``pyramid`` ``object``.
    """
    rest = " ".join(phrase.casefold().split())
    ended = False
    for concept in sorted(concepts, key=len, reverse=True):
        pattern = named(concept)
        ended = ended or re.search(rf"{pattern}$", rest) is not None
        rest = re.sub(pattern, " ", rest)
    words = rest.split()
    if ended or not words:
        words.append(GENERAL_NOUN)
    return " ".join(words)
