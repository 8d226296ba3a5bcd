"""Open-vocabulary detection with a published Grounding DINO checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.models.loading import Checkpoint, in_equal_groups
from viper.models.vision.boxes import pixel_boxes, suppress
from viper.models.vision.roles import Detection, Pixels

if TYPE_CHECKING:
    import torch

MAX_ASPECT = 16
"""A thinner picture is padded, because the model needs as many places as it proposes boxes."""


@dataclass(frozen=True)
class GroundingDinoEncoding:
    """Encoding of one picture.

    Attributes:
        maps: the image backbone's feature maps [C, h, w], each with its mask bool [h, w].
        mask: int64 [h, w], 1 for each pixel of the model's input.
        size: (height, width) of the picture.
        frame: (height, width) in pixels of the picture after padding right or below.
    """

    maps: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    mask: torch.Tensor
    size: tuple[int, int]
    frame: tuple[int, int]


class GroundingDinoDetector(Checkpoint):
    """The ``Detector`` role on ``GroundingDinoForObjectDetection``.

    The image backbone runs once per picture. The layers after it mix picture and text, so they run
    again for each phrase. Each phrase is a separate text: phrases in one text would attend to each
    other and compete for the proposals.

    Not for several threads at once; the toolbox holds a lock for each model.

    Source: Liu et al. 2023, Grounding DINO. Its box threshold of .35 suits the profile.

    Args:
        model: the network.
        processor: its image processor and tokenizer (``GroundingDinoProcessor``).
        name: goes into traces and cache keys.
        batch_size: maximum number of pictures or phrases in one forward pass.
    """

    network = "transformers:GroundingDinoForObjectDetection"
    readers = ("transformers:AutoProcessor",)

    def __init__(self, *parts: Any, batch_size: int = 4) -> None:
        super().__init__(*parts, batch_size=batch_size)

    def encode(self, images: Sequence[Pixels]) -> list[GroundingDinoEncoding]:
        """Return one encoding per image; pictures of one size share a run of the backbone."""
        return in_equal_groups(images, lambda image: image.shape, self._batch_size, self._encode)

    def _encode(self, images: Sequence[Pixels]) -> list[GroundingDinoEncoding]:
        import torch

        framed = [_framed(image) for image in images]
        batch = self._fitted(
            self._processor.image_processor(
                framed, input_data_format="channels_last", return_tensors="pt"
            )
        )
        with torch.inference_mode():
            maps = self._backbone()(batch["pixel_values"], batch["pixel_mask"])
        return [
            GroundingDinoEncoding(
                tuple((features[i], mask[i]) for features, mask in maps),
                batch["pixel_mask"][i],
                images[i].shape[:2],
                framed[i].shape[:2],
            )
            for i in range(len(images))
        ]

    def detect(
        self, encoding: GroundingDinoEncoding, phrases: Sequence[str]
    ) -> list[list[Detection]]:
        """Return the boxes of each phrase after non-maximum suppression, best first.

        A box's score is that of its best token, as in the library's post-processing.
        """
        limit = min(
            self._model.config.max_text_len, self._model.config.text_config.max_position_embeddings
        )
        read = partial(self._processor.tokenizer, truncation=True, max_length=limit)
        tokens = [read(as_prompt(phrase))["input_ids"] for phrase in phrases]

        def forward(batch: Sequence[Sequence[int]]) -> list[list[Detection]]:
            return detections(self._forward(encoding, batch), encoding.size, encoding.frame)

        return in_equal_groups(tokens, len, self._batch_size, forward)

    def _forward(self, encoding: GroundingDinoEncoding, tokens: Sequence[Sequence[int]]) -> Any:
        """Return the model's output for texts of one length, without running the backbone."""
        import torch

        count = len(tokens)
        maps = [
            (features.expand(count, -1, -1, -1), mask.expand(count, -1, -1))
            for features, mask in encoding.maps
        ]
        ids = torch.tensor(tokens, device=encoding.mask.device)
        unread = maps[0][0].new_zeros(()).expand(count, 3, *encoding.mask.shape)
        with torch.inference_mode(), _returning(self._backbone(), maps):
            return self._model(
                pixel_values=unread,
                pixel_mask=encoding.mask.expand(count, -1, -1),
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
            )

    def _backbone(self) -> Any:
        return self._model.model.backbone.conv_encoder


def as_prompt(phrase: str) -> str:
    """Return the phrase in the format of the model's training: lower case, with a final period.

    Periods and question marks inside would split it into several phrases.
    """
    words = phrase.lower().replace(".", " ").replace("?", " ").split()
    return " ".join(words) + "."


def detections(
    output: Any, size: tuple[int, int], frame: tuple[int, int] | None = None
) -> list[list[Detection]]:
    """Return the detections of a model's output, for each text of its batch.

    Args:
        output: ``logits`` [B, Q, T] of each proposal and token, and ``pred_boxes``
            [B, Q, 4], (centre x, centre y, width, height) as shares of the frame.
        size: (height, width) of the picture.
        frame: of the padded picture; None if it was not padded.
    """
    scores = output.logits.float().sigmoid().amax(dim=-1).cpu().numpy()
    boxes = output.pred_boxes.float().cpu().numpy()
    return [
        suppress(pixel_boxes(row, size, frame), score)
        for row, score in zip(boxes, scores, strict=True)
    ]


@contextmanager
def _returning(module: Any, output: Any) -> Iterator[None]:
    """Make the module return ``output`` without computing while the block runs."""
    own = module.forward
    module.forward = lambda *_args, **_kwargs: output
    try:
        yield
    finally:
        module.forward = own


def _framed(image: Pixels) -> Pixels:
    """Return a writable copy, with black pixels right of or below a very thin picture."""
    height, width = image.shape[:2]
    right = max(0, -(-height // MAX_ASPECT) - width)
    below = max(0, -(-width // MAX_ASPECT) - height)
    return np.pad(image, ((0, below), (0, right), (0, 0)))
