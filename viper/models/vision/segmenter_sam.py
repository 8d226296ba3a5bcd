"""Segmentation by names with SAM: SAM 2 outlines the boxes of a detector, SAM 3 reads the names.

``encode`` runs the image towers once. ``segments`` looks for the names that a program gives, or the
vocabulary, takes masks best first (``_masks``, each backend's own), and gives every pixel to the
best mask. SAM 3 also detects: the boxes around its masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from viper.errors import ModelError
from viper.models.libraries import functional, torch, transformers
from viper.models.loading import Checkpoint, PictureTextCheckpoint, in_batches
from viper.models.options import check_shares, checked_texts
from viper.models.vision.boxes import MIN_SCORE, mask_box, require_finite, suppress
from viper.models.vision.image_processing import prepared
from viper.models.vision.roles import Detection, Mask, Pixels, Segment

_NAMES = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, "
    "fire hydrant, stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, "
    "bear, zebra, giraffe, backpack, umbrella, handbag, tie, suitcase, frisbee, skis, snowboard, "
    "sports ball, kite, baseball bat, baseball glove, skateboard, surfboard, tennis racket, "
    "bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, "
    "carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, "
    "tv, laptop, mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, "
    "refrigerator, book, clock, vase, scissors, teddy bear, hair drier, toothbrush"
)
_GENERAL = (
    "animal, plant, flower, tree, food, drink, toy, tool, machine, clothing, hat, shoe, furniture, "
    "lamp, picture, vehicle, building, door, window, sign, box, bag"
)

# The 80 objects of COCO.
THINGS = tuple(_NAMES.split(", "))

# Names that are looked for if a program names none: general nouns for what COCO lacks.
VOCABULARY = (*THINGS, *_GENERAL.split(", "))

# Share of its own mask that a segment must keep beside better ones; otherwise it is dropped. Names
# such as cup and glass outline one object, and the worse copy must go.
OVERLAP = 0.5

# Families whose image tower runs by itself and whose masks are prompted by boxes.
PROMPTABLE = frozenset({"sam2", "sam2_video", "edgetam", "edgetam_video", "sam3_tracker"})


# Label, score and mask of an object.
LabelledMask = tuple[str, float, Mask]


@dataclass(frozen=True)
class Sam2Encoding:
    """Encoding of one picture.

    Attributes:
        features: feature maps of SAM's image tower, float [1, C, h, w] each, the finest first.
        boxes: the detector's encoding of the picture.
        size: (height, width) of the picture.
    """

    features: list[Any]
    boxes: Any
    size: tuple[int, int]


@dataclass(frozen=True)
class Sam3Encoding:
    """Encoding of one picture.

    Attributes:
        features: feature maps of the image tower, float [1, C, h, w] each, the finest first.
        positions: position encoding of the coarsest one.
        size: (height, width) of the picture.
    """

    features: tuple[Any, ...]
    positions: Any
    size: tuple[int, int]


class NamedSegments(Checkpoint):
    """Base of segmenters that look for names instead of knowing a fixed list of labels.

    Not for several threads at once; the toolbox holds a lock for each model.

    Args:
        parts: those of the checkpoint.
        threshold: least score of a segment, in [0, 1]; None takes the class's own.
        overlap: share of its own mask that a segment must keep beside better ones, in [0, 1].
        vocabulary: names to look for if a program names none.
        batch_size: maximum number of boxes or names in one forward pass.

    Attributes:
        usual_threshold: the class's own threshold.
        families: families of networks that can play the role; empty if loading checks them.

    Raises:
        ModelError: the network is of another family.
        ProfileError: a value outside [0, 1], or a vocabulary without names.
    """

    usual_threshold: ClassVar[float]
    families: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        *parts: Any,
        threshold: float | None = None,
        overlap: float = OVERLAP,
        vocabulary: Sequence[str] = VOCABULARY,
        batch_size: int = 4,
    ) -> None:
        super().__init__(*parts, batch_size=batch_size)
        family = self._model.config.model_type
        if self.families and family not in self.families:
            known = ", ".join(sorted(self.families))
            raise ModelError(f"{parts[-1]}: a {family} model cannot segment here; known: {known}")
        self._threshold = self.usual_threshold if threshold is None else threshold
        self._overlap = overlap
        check_shares(threshold=self._threshold, overlap=overlap)
        self._vocabulary = _by_word(checked_texts("vocabulary", vocabulary, at_least=1))

    def segments(self, encoding: Any, names: Sequence[str] | None) -> list[Segment]:
        """Return the regions of these names, or of the vocabulary, best first; the label is the
        name.

        Where masks overlap, the better one has the pixels. Any name can be looked for. One of the
        vocabulary gives what it gives among the whole vocabulary.

        Raises:
            ModelError: a mask or a score is not finite.
        """
        asked = _by_word(names or ())
        words = {**asked, **self._vocabulary} if asked.keys() & self._vocabulary.keys() else asked
        words = self._vocabulary if names is None else words
        masks = self._masks(encoding, list(words.values())) if words else iter(())
        segments, taken = [], np.zeros(encoding.size, np.bool_)
        for label, score, mask in masks:
            rest = mask & ~taken
            if rest.any() and rest.sum() >= self._overlap * mask.sum():
                taken |= rest
                if names is None or label.casefold() in asked:
                    segments.append(Segment(rest, label, score))
        return segments

    def _masks(self, encoding: Any, names: Sequence[str]) -> Iterator[LabelledMask]:
        """Yield label, score and mask bool [H, W] of each object above the threshold, best
        first.
        """
        raise NotImplementedError


class Sam2Segmenter(NamedSegments):
    """The ``Segmenter`` role made of a detector and a SAM 2 model.

    The detector finds the boxes of a name, and SAM 2 outlines each. Both image towers run once per
    picture. A segment's score is that of its box.

    Source: Ravi et al. 2024, SAM 2.

    Attributes:
        detector: plays the ``Detector`` role in the same profile, which sets it after loading.
    """

    network = "transformers:AutoModelForMaskGeneration"
    usual_threshold = 0.2  # of the detector's boxes, as for OWLv2; an outline is worth no less
    families = PROMPTABLE
    detector: Any

    @property
    def model_id(self) -> str:  # type: ignore[override]
        """Return the names of both models. Asking for it loads the detector."""
        return f"{self._name}+{self.detector.model_id}"

    @model_id.setter
    def model_id(self, name: str) -> None:
        self._name = name

    def encode(self, pixels: Pixels) -> Sam2Encoding:
        """Return the outputs of both image towers for one picture, uint8 [H, W, 3]."""
        batch = self._fitted({"pixel_values": prepared(self._processor, pixels)[None]})
        with torch.inference_mode():
            features = self._model.get_image_embeddings(**batch)
        return Sam2Encoding(features, self.detector.encode([pixels])[0], pixels.shape[:2])

    def _masks(self, encoding: Sam2Encoding, names: Sequence[str]) -> Iterator[LabelledMask]:
        # Some detectors have a faster way to look for a long list of names.
        find = getattr(self.detector, "survey", self.detector.detect)
        boxes = [
            (name, item)
            for name, items in zip(names, find(encoding.boxes, names), strict=True)
            for item in items
            if item.score >= self._threshold
        ]
        boxes.sort(key=lambda each: -each[1].score)
        (height, width), side, place = encoding.size, self._processor.size, self._place()
        scale = [side["width"] / width, side["height"] / height] * 2
        for start in range(0, len(boxes), self._batch_size):
            some = boxes[start : start + self._batch_size]
            corners = np.array([item.box for _, item in some]) * scale
            prompts = torch.tensor(corners[None], device=place.device, dtype=place.dtype)
            with torch.inference_mode():
                output = self._model(
                    image_embeddings=encoding.features, input_boxes=prompts, multimask_output=False
                )
            masks = _full_size(self._name, output.pred_masks[0, :, 0], encoding.size)
            for (name, item), mask in zip(some, masks, strict=True):
                yield name, item.score, mask


class Sam3Image:
    """Loads the image model of a SAM 3 repository, whose configuration is the video model's."""

    @staticmethod
    def from_pretrained(source: str | Path, **options: Any) -> Any:
        """Load the ``Sam3Model`` of a folder.

        Raises:
            ValueError: the folder holds another family.
        """
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=True)
        if config.model_type not in ("sam3", "sam3_video"):
            raise ValueError(f"it is a {config.model_type} model, not sam3")
        config = getattr(config, "detector_config", config)
        return transformers.Sam3Model.from_pretrained(source, config=config, **options)


class Sam3(PictureTextCheckpoint):
    """Base of backends on SAM 3, which finds all objects that a text names, with their masks.

    The image tower runs once per picture, the rest once per name.

    Not for several threads at once; the toolbox holds a lock for each model.

    Source: Carion et al. 2025, SAM 3.
    """

    network = "viper.models.vision.segmenter_sam:Sam3Image"

    def __init__(self, *parts: Any, batch_size: int = 4) -> None:
        super().__init__(*parts, batch_size=batch_size)

    def _look(self, pixels: Pixels) -> Sam3Encoding:
        batch = self._fitted({"pixel_values": prepared(self._processor, pixels)[None]})
        with torch.inference_mode():
            output = self._model.get_vision_features(**batch)
        # The network reads neither the last map nor the other position encodings of a text prompt.
        features, positions = output.fpn_hidden_states[:-1], output.fpn_position_encoding[-2]
        return Sam3Encoding(tuple(features), positions, pixels.shape[:2])

    def _instances(
        self, encoding: Sam3Encoding, names: Sequence[str], least: float
    ) -> list[list[tuple[str, float, Any]]]:
        """Return name, score and mask's logits float [h, w] of each name's instances, best
        first.
        """

        from transformers.models.sam3.modeling_sam3 import Sam3VisionEncoderOutput

        def forward(some: Sequence[str]) -> list[list[tuple[str, float, Any]]]:
            count = len(some)
            features = [each.expand(count, -1, -1, -1) for each in encoding.features]
            positions = encoding.positions.expand(count, -1, -1, -1)
            texts = self._text_inputs(self._tokenizer, some, padding="max_length")
            looked = Sam3VisionEncoderOutput(
                fpn_hidden_states=(*features, features[-1]),
                fpn_position_encoding=(*[positions] * len(features), positions),
            )
            with torch.inference_mode():
                output = self._model(vision_embeds=looked, **texts)
            scores = (output.pred_logits.float().sigmoid() * output.presence_logits.sigmoid()).cpu()
            require_finite(self.model_id, "scores", scores.numpy())
            results = []
            for name, row, masks in zip(some, scores, output.pred_masks, strict=True):
                order = row.argsort(descending=True, stable=True)
                best = [int(i) for i in order if row[i] >= least]
                results.append([(name, float(row[i]), masks[i]) for i in best])
            return results

        return in_batches(names, self._batch_size, forward)


class Sam3Segmenter(NamedSegments, Sam3):
    """The ``Segmenter`` role on SAM 3."""

    usual_threshold = 0.5  # its scores are probabilities, so: likelier than not

    def encode(self, pixels: Pixels) -> Sam3Encoding:
        """Return the output of the image tower for one picture, uint8 [H, W, 3]."""
        return self._look(pixels)

    def _masks(self, encoding: Sam3Encoding, names: Sequence[str]) -> Iterator[LabelledMask]:
        per_name = self._instances(encoding, names, self._threshold)
        instances = [instance for each in per_name for instance in each]
        for label, score, logits in sorted(instances, key=lambda each: -each[1]):
            yield label, score, _full_size(self.model_id, logits[None], encoding.size)[0]


class Sam3Detector(Sam3):
    """The ``Detector`` role on SAM 3: the boxes around its masks."""

    def encode(self, images: Sequence[Pixels]) -> list[Sam3Encoding]:
        """Return one encoding per image."""
        return [self._look(image) for image in images]

    def detect(self, encoding: Sam3Encoding, phrases: Sequence[str]) -> list[list[Detection]]:
        """Return the boxes of each phrase after non-maximum suppression, best first.

        Raises:
            ModelError: a mask or a score is not finite.
        """
        results = []
        for instances in self._instances(encoding, phrases, MIN_SCORE):
            boxes, scores = [], []
            for _, score, logits in instances:
                (mask,) = _full_size(self.model_id, logits[None], encoding.size)
                if mask.any():
                    boxes.append(mask_box(mask))
                    scores.append(score)
            corners = np.array(boxes, np.float32).reshape(-1, 4)
            results.append(suppress(corners, np.array(scores, np.float32), self.model_id))
        return results


def _by_word(names: Sequence[str]) -> dict[str, str]:
    return {name.strip().casefold(): name.strip() for name in names if name.strip()}


def _full_size(model: str, logits: Any, size: tuple[int, int]) -> list[Mask]:
    """Return masks bool [H, W] of a picture by their logits, float [N, h, w]."""
    require_finite(model, "masks", logits.float().cpu().numpy())
    whole = functional.interpolate(logits.float()[None], size, mode="bilinear")[0] > 0
    return list(whole.cpu().numpy())
