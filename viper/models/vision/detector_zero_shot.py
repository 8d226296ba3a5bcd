"""Open-vocabulary detection with the zero-shot detectors of transformers.

``encode`` pads a thin picture and runs the image backbone, where a family can run it alone.
``detect`` runs the rest for each phrase, with the backbone replaced by its kept output, and makes
boxes of the proposals (:func:`detections`). Other families run whole for each phrase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from viper.models.libraries import Tensor, torch
from viper.models.loading import Checkpoint, in_batches, in_equal_groups
from viper.models.vision.boxes import MIN_SCORE, clip_corners, pixel_boxes, require_finite, suppress
from viper.models.vision.image_processing import padded
from viper.models.vision.roles import Detection, Pixels

# Families whose image backbone runs once per picture. The others run whole for each phrase.
KEPT_TOWERS = frozenset({"grounding-dino", "mm-grounding-dino"})

# Outputs of the families that run whole, from which boxes are made.
_USED = ("logits", "pred_boxes", "decoder_class_logits", "decoder_coord_logits")


# Inputs of an image backbone.
_PIXELS = ("pixel_values", "pixel_mask")


@dataclass(frozen=True)
class TowerInput:
    """Picture as an image backbone takes it.

    Attributes:
        pixel_values: float [3, h, w].
        pixel_mask: int64 [h, w].
        size: (height, width) of the picture.
        frame: (height, width) in pixels of the picture after padding right or below.
    """

    pixel_values: Tensor
    pixel_mask: Tensor
    size: tuple[int, int]
    frame: tuple[int, int]


@dataclass(frozen=True)
class TowerEncoding:
    """Output of the image backbone for one picture.

    Attributes:
        maps: the image backbone's feature maps [C, h, w], each with its mask bool [h, w].
        mask: int64 [h, w], 1 for each pixel of the model's input.
        size: (height, width) of the picture.
        frame: (height, width) in pixels of the picture after padding right or below.
    """

    maps: tuple[tuple[Tensor, Tensor], ...]
    mask: Tensor
    size: tuple[int, int]
    frame: tuple[int, int]


@dataclass(frozen=True)
class PictureEncoding:
    """Picture for a model whose image tower cannot run by itself: padded, and its own size."""

    framed: Pixels
    size: tuple[int, int]


Encoding = TowerEncoding | PictureEncoding


class ZeroShotDetector(Checkpoint):
    """The ``Detector`` role on a family of ``AutoModelForZeroShotObjectDetection``.

    Each phrase is a separate text. Phrases in one text would attend to each other and compete for
    the proposals. In Grounding DINO and MM-Grounding-DINO the image backbone runs once per picture
    and the layers after it, which mix picture and text, once per phrase. In the other families
    (OmDet-Turbo, OWL-ViT, OWLv2) everything runs for each phrase; ``owlv2`` has a faster backend of
    its own.

    Not for several threads at once; the toolbox holds a lock for each model.

    Source: Liu et al. 2023, Grounding DINO. Its box threshold of .35 suits the profile.

    Args:
        model: the network.
        processor: its image processor and tokenizer.
        name: goes into traces and cache keys.
        batch_size: maximum number of pictures or phrases in one forward pass.
    """

    network = "transformers:AutoModelForZeroShotObjectDetection"
    readers = ("transformers:AutoProcessor",)

    def __init__(self, *parts: Any, batch_size: int = 4) -> None:
        super().__init__(*parts, batch_size=batch_size)
        self._keeps_tower = self._model.config.model_type in KEPT_TOWERS

    def encode(self, images: Sequence[Pixels]) -> list[TowerEncoding | PictureEncoding]:
        """Return one encoding per image; pictures of one size share a run of the backbone."""
        return self.encode_prepared([self.prepare(image) for image in images])

    @property
    def prepare(self) -> Callable[[Pixels], TowerInput | PictureEncoding]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(_prepared, self._processor.image_processor) if self._keeps_tower else _framed

    def encode_prepared(self, inputs: Sequence[Any]) -> list[TowerEncoding | PictureEncoding]:
        """Return one encoding per prepared picture."""
        if not self._keeps_tower:
            return list(inputs)
        return in_equal_groups(inputs, lambda each: each.frame, self._batch_size, self._encode)

    def _encode(self, inputs: Sequence[TowerInput]) -> list[TowerEncoding]:
        stacked = {name: torch.stack([getattr(each, name) for each in inputs]) for name in _PIXELS}
        batch = self._fitted(stacked)
        with torch.inference_mode():
            maps = self._backbone()(batch["pixel_values"], batch["pixel_mask"])
        # Clones, because a row of a batch would keep the whole batch in memory.
        return [
            TowerEncoding(
                tuple((features[i].clone(), mask[i].clone()) for features, mask in maps),
                batch["pixel_mask"][i].clone(),
                each.size,
                each.frame,
            )
            for i, each in enumerate(inputs)
        ]

    def detect(self, encoding: Encoding, phrases: Sequence[str]) -> list[list[Detection]]:
        """Return the boxes of each phrase after non-maximum suppression, best first.

        A box's score is that of its best token, as in the library's post-processing.

        Raises:
            ModelError: a box or a score is not finite.
        """
        if isinstance(encoding, PictureEncoding):
            return in_batches(phrases, self._batch_size, partial(self._detect_whole, encoding))
        read = partial(self._processor.tokenizer, truncation=True, max_length=self._limit())
        tokens = [read(as_prompt(phrase))["input_ids"] for phrase in phrases]

        def forward(batch: Sequence[Sequence[int]]) -> list[list[Detection]]:
            output = self._forward(encoding, batch)
            return detections(output, encoding.size, encoding.frame, self.model_id)

        return in_equal_groups(tokens, len, self._batch_size, forward)

    def survey(self, encoding: Encoding, names: Sequence[str]) -> list[list[Detection]]:
        """Return what :meth:`detect` returns, faster and less exactly, for a long list of names.

        As many names as fit stand in one text and compete for the proposals: a box belongs to the
        name of its best token. Phrases of several words confuse this, so programs get
        :meth:`detect`.

        Raises:
            ModelError: a box or a score is not finite.
        """
        if isinstance(encoding, PictureEncoding):
            return self.detect(encoding, names)
        read, limit = self._processor.tokenizer, self._limit()
        prompts = [as_prompt(name) for name in names]
        lengths = [len(read(prompt, add_special_tokens=False)["input_ids"]) for prompt in prompts]
        results: list[list[Detection]] = []
        groups: list[list[int]] = []  # consecutive names, as many as fit beside the two end tokens
        for place, length in enumerate(lengths):
            if not groups or sum(lengths[i] for i in groups[-1]) + length > limit - 2:
                groups.append([])
            groups[-1].append(place)
        for some in groups:
            text = " ".join(prompts[i] for i in some)
            ids = read(text, truncation=True, max_length=limit)["input_ids"]
            output = self._forward(encoding, [ids])
            scores = output.logits[0].float().sigmoid().cpu().numpy()  # (Q, T)
            ends = 1 + np.cumsum([lengths[i] for i in some])  # the first token is [CLS]
            spans = zip([1, *ends], ends - 1, strict=False)  # without the final period
            per_name = np.stack([scores[:, a:b].max(1, initial=0.0) for a, b in spans])
            shares = output.pred_boxes[0].float().cpu().numpy()
            boxes = pixel_boxes(shares, encoding.size, encoding.frame)
            require_finite(self.model_id, "boxes", boxes, per_name)
            best = per_name.argmax(0)
            for i, row in enumerate(per_name):
                results.append(suppress(boxes[best == i], row[best == i], self.model_id))
        return results

    def _limit(self) -> int:
        """Return the maximum number of tokens of a text."""
        config = self._model.config
        return int(min(config.max_text_len, config.text_config.max_position_embeddings))

    def _forward(self, encoding: TowerEncoding, tokens: Sequence[Sequence[int]]) -> Any:
        """Return the model's output for texts of one length, without running the backbone."""
        count = len(tokens)
        maps = [
            (features.expand(count, -1, -1, -1), mask.expand(count, -1, -1))
            for features, mask in encoding.maps
        ]
        ids = torch.tensor(tokens, device=encoding.mask.device)
        unread = maps[0][0].new_zeros(()).expand(count, 3, *encoding.mask.shape)
        backbone = self._backbone()
        own = backbone.forward
        backbone.forward = lambda *_args, **_kwargs: maps
        try:
            with torch.inference_mode():
                return self._model(
                    pixel_values=unread,
                    pixel_mask=encoding.mask.expand(count, -1, -1),
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                )
        finally:
            backbone.forward = own

    def _backbone(self) -> Any:
        return self._model.model.backbone.conv_encoder

    def _detect_whole(
        self, encoding: PictureEncoding, phrases: Sequence[str]
    ) -> list[list[Detection]]:
        """Run the whole model for each phrase, and the library's own post-processing."""
        count, frame = len(phrases), encoding.framed.shape[:2]
        inputs = self._processor(
            images=[encoding.framed],
            text=[[phrase.strip()] for phrase in phrases],
            truncation=True,
            return_tensors="pt",
            input_data_format="channels_last",
        )
        batch = self._fitted(inputs)
        batch["pixel_values"] = batch["pixel_values"].expand(count, -1, -1, -1)
        batch.pop("pixel_mask", None)  # no family that runs whole takes one
        with torch.inference_mode():
            output = self._model(**batch)
        for name in output.keys() & _USED:
            output[name] = output[name].float()  # processors have no NMS in 16 bits
            # The post-processing would drop NaN.
            require_finite(self.model_id, "boxes", output[name].cpu().numpy())
        results = self._processor.post_process_grounded_object_detection(
            output, threshold=MIN_SCORE, target_sizes=[frame] * count
        )
        return [
            suppress(
                clip_corners(result["boxes"].float().cpu().numpy(), encoding.size),
                result["scores"].float().cpu().numpy(),
                self.model_id,
            )
            for result in results
        ]


def as_prompt(phrase: str) -> str:
    """Return the phrase as in Grounding DINO's training: lower case, with a final period.

    Periods and question marks inside would split it into several phrases.
    """
    words = phrase.lower().replace(".", " ").replace("?", " ").split()
    return " ".join(words) + "."


def detections(
    output: Any,
    size: tuple[int, int],
    frame: tuple[int, int] | None = None,
    model: str = "the detector",
) -> list[list[Detection]]:
    """Return the detections of a model's output, for each text of its batch.

    Args:
        output: ``logits`` [B, Q, T] of each proposal and token, and ``pred_boxes``
            [B, Q, 4], (centre x, centre y, width, height) as shares of the frame.
        size: (height, width) of the picture.
        frame: of the padded picture; None if it was not padded.
        model: id of the model, for errors.

    Raises:
        ModelError: a box or a score is not finite.
    """
    scores = output.logits.float().sigmoid().amax(dim=-1).cpu().numpy()
    boxes = output.pred_boxes.float().cpu().numpy()
    rows = zip(boxes, scores, strict=True)
    return [suppress(pixel_boxes(row, size, frame), score, model) for row, score in rows]


def _framed(image: Pixels) -> PictureEncoding:
    return PictureEncoding(padded(image), image.shape[:2])


def _prepared(image_processor: Any, image: Pixels) -> TowerInput:
    framed = _framed(image)
    batch = image_processor([framed.framed], input_data_format="channels_last", return_tensors="pt")
    pixels, mask = (batch[name][0] for name in _PIXELS)
    return TowerInput(pixels, mask, framed.size, framed.framed.shape[:2])
