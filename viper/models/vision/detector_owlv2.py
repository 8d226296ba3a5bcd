"""Open-vocabulary detection with OWLv2: the package's own small one or a published checkpoint."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from viper.models.loading import Checkpoint, processed
from viper.models.vision.adapter_detector import (
    GENERAL_NOUN,
    Proposals,
    moved,
    picture_feature,
    rest_of,
    sureness,
)
from viper.models.vision.boxes import pixel_boxes, suppressed
from viper.models.vision.roles import Detection, Floats, Pixels
from viper.models.vision.second_look import KEPT_SIDES, cut_out, described, likely_objects, shrunk
from viper.models.vision.soft_prompts import LearnedPrompt
from viper.storage.cache import RecentTexts

if TYPE_CHECKING:
    import torch

DEFAULT_THRESHOLD = 0.2
"""Used where the checkpoint's folder states no calibrated threshold."""

MAYBE = 0.05
"""How sure a prompt is at least of a box that is moved a second time."""

_LOOKS = 16
"""Pictures whose cut-outs are kept: several prompts are asked about one picture in a row."""


@dataclass(frozen=True)
class Owlv2Encoding:
    """What the image tower found in one picture.

    Attributes:
        features: float32 [P, D], one row a patch.
        boxes: float32 [P, 4], the box each patch proposes: (x0, y0, x1, y1) in pixels
            of the picture from its top-left corner, clipped to it.
        objectness: float32 [P], the logit of each box being an object's, whatever it is.
        size: (height, width) of the picture in pixels.
        kept: uint8 [h, w, 3], the picture as it is looked at again, shrunk where it is large.
    """

    features: torch.Tensor
    boxes: NDArray[np.float32]
    objectness: NDArray[np.float32]
    size: tuple[int, int]
    kept: Pixels


class Owlv2Detector(Checkpoint):
    """The :class:`~viper.models.vision.roles.Detector` role, played by ``Owlv2ForObjectDetection``.

    Not for several threads at once; the toolbox holds a lock for each model.

    Args:
        model: the network.
        processor: its image processor and tokenizer (``Owlv2Processor``).
        name: what goes into traces and cache keys.

    Attributes:
        default_threshold: the score that its maker found to be a good cut.
    """

    network = "transformers:Owlv2ForObjectDetection"
    readers = ("transformers:Owlv2Processor",)

    def __init__(self, model: Any, processor: Any, name: str) -> None:
        super().__init__(model, processor, name)
        self.default_threshold = DEFAULT_THRESHOLD
        self._phrases = RecentTexts[Any]()
        self._looks: deque[tuple[Owlv2Encoding, Proposals]] = deque(maxlen=_LOOKS)

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> Self:
        """As every checkpoint; the threshold is what ``viper.json`` in the folder states, if any.

        Raises:
            ModelError: there is no such checkpoint, or it is not an OWLv2.
        """
        found = super().from_pretrained(source, **options)
        found.default_threshold = _calibrated_threshold(Path(source))
        return found

    def encode(self, images: Sequence[Pixels]) -> list[Owlv2Encoding]:
        """One encoding an image; the image tower runs once for all of them."""
        import torch

        if not images:
            return []
        batch = processed(self._processor.image_processor, images)
        model = self._model
        with torch.inference_mode():
            grid, _ = model.image_embedder(**self._fitted(batch))
            features = grid.flatten(1, 2)  # (B, P, D)
            boxes = model.box_predictor(features, grid).float().cpu().numpy()
            objectness = model.objectness_predictor(features).float().cpu().numpy()
        return [
            Owlv2Encoding(
                features[i],
                _pixel_boxes(boxes[i], *images[i].shape[:2]),
                objectness[i],
                images[i].shape[:2],
                shrunk(images[i], KEPT_SIDES * model.config.vision_config.image_size),
            )
            for i in range(len(images))
        ]

    def detect(self, encoding: Owlv2Encoding, phrases: Sequence[str]) -> list[list[Detection]]:
        """For each phrase, its boxes after non-maximum suppression, best first.

        The library's own post-processing gives every box to its best phrase alone, so
        that "cube" would take the boxes of "red cube". Here each phrase stands alone.
        """
        if not phrases:
            return []
        return [suppressed(encoding.boxes, row) for row in self._scores(encoding, phrases)]

    def feature(self, encoding: Owlv2Encoding) -> Floats:
        """The picture as prompts are found again by, float32 [D]: the mean of its patches."""
        return picture_feature(encoding.features)

    def detect_adapted(
        self, encoding: Owlv2Encoding, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> list[Detection]:
        """As :meth:`detect` for one phrase, which names the concepts of all the prompts.

        A box is as sure as the least sure concept of the phrase, each by its prompt, and no surer
        than that it is an object. Where the phrase says more, its rest is asked of the detector as
        it came, and the geometric mean counts, concepts twice: the detector is less sure of the
        cube in a striped one. (Phrases all right: .574; .481 by the least sure part; 54 scenes of
        validation.)
        """
        found = self.proposals(encoding)
        known = _known(found, prompts)
        sure = self._sure(encoding, found, phrase, known, prompts)
        return suppressed(self._drawn(encoding, found, known, prompts), sure)

    def surest(
        self, encoding: Owlv2Encoding, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> float:
        """Score of the best box of :meth:`detect_adapted`, whose boxes need not be drawn for it."""
        found = self.proposals(encoding)
        sure = self._sure(encoding, found, phrase, _known(found, prompts), prompts)
        return float(sure.max(initial=0.0))

    def _sure(
        self,
        encoding: Owlv2Encoding,
        found: Proposals,
        phrase: str,
        known: Floats,
        prompts: Sequence[LearnedPrompt],
    ) -> Floats:
        """float32 [N]: how sure each box is to be what the phrase says."""
        rest = rest_of(phrase, {prompt.concept for prompt in prompts})
        plain = found.best(self._scores(encoding, [rest])[0])
        sure: Floats = (
            np.minimum(plain, known) if rest == GENERAL_NOUN else np.cbrt(plain * known**2)
        )
        return sure

    def _drawn(
        self,
        encoding: Owlv2Encoding,
        found: Proposals,
        known: Floats,
        prompts: Sequence[LearnedPrompt],
    ) -> Floats:
        """float32 [N, 4]: the boxes as prompts move them, twice where they may show the concepts.

        The second time from what is seen in the box that the first one drew.
        """
        boxes = _moved(found, prompts, encoding.size)
        again = np.flatnonzero(known >= MAYBE)
        if len(again):
            scale = encoding.kept.shape[1] / encoding.size[1]
            features = self._looked(encoding.kept, boxes[again] * scale)
            closer = Proposals(boxes[again], features, found.members[again])
            boxes[again] = _moved(closer, prompts, encoding.size)
        return boxes

    def proposals(self, encoding: Owlv2Encoding) -> Proposals:
        """What may be an object in a picture, looked at again; see :class:`Proposals`."""
        for seen, known in self._looks:
            if seen is encoding:
                return known
        kept, members = likely_objects(encoding.boxes, encoding.objectness)
        boxes = encoding.boxes[kept]
        scale = encoding.kept.shape[1] / encoding.size[1]
        found = Proposals(boxes, self._looked(encoding.kept, boxes * scale), members)
        self._looks.append((encoding, found))
        return found

    def _looked(self, pixels: Pixels, boxes: Floats) -> Floats:
        """float32 [N, D]: what the image tower says of each box's cut-out."""
        import torch

        config = self._model.config.vision_config
        # Of no box at all one is looked at, for the width of what there is to say.
        cuts = [cut_out(pixels, box, config.image_size) for box in boxes] or [pixels]
        batch = self._fitted(processed(self._processor.image_processor, cuts))
        seen: list[Any] = []
        layers = self._model.owlv2.vision_model.encoder.layers
        hook = layers[(len(layers) - 1) // 2].register_forward_hook(
            lambda _layer, _inputs, output: seen.append(output)
        )
        try:
            with torch.inference_mode():
                grid, _ = self._model.image_embedder(**batch)
        finally:
            hook.remove()
        middle = seen[0] if isinstance(seen[0], torch.Tensor) else seen[0][0]
        return described(middle[:, 1:], grid.flatten(1, 2))[: len(boxes)]

    def _scores(self, encoding: Owlv2Encoding, phrases: Sequence[str]) -> Floats:
        """float32 [Q, P]: how sure each patch's box is to be what each phrase says, in [0, 1]."""
        import torch

        with torch.inference_mode():
            texts = self._embed(phrases)
            logits, _ = self._model.class_predictor(encoding.features[None], texts[None])
            scores: Floats = logits[0].float().sigmoid().T.cpu().numpy()
        return scores

    def _embed(self, phrases: Sequence[str]) -> torch.Tensor:
        """float32 [Q, D]: normalised text embeddings; those of the latest phrases are kept."""
        import torch

        return torch.stack(self._phrases.get(phrases, self._encoded_texts))

    def _encoded_texts(self, phrases: list[str]) -> list[torch.Tensor]:
        import torch

        length = self._model.config.text_config.max_position_embeddings
        tokens = self._processor.tokenizer(
            phrases, padding=True, truncation=True, max_length=length, return_tensors="pt"
        ).to(self._model.device)
        pooled = self._model.owlv2.get_text_features(
            tokens["input_ids"], tokens["attention_mask"]
        ).pooler_output
        rows = torch.nn.functional.normalize(pooled, dim=-1)
        # Copies: a row of the batch would keep the whole batch in memory.
        return [row.clone() for row in rows]


def _known(found: Proposals, prompts: Sequence[LearnedPrompt]) -> Floats:
    """float32 [N]: how sure the least sure prompt is of each box."""
    known: Floats = np.min([sureness(found, prompt.vectors) for prompt in prompts], axis=0)
    return known


def _moved(found: Proposals, prompts: Sequence[LearnedPrompt], size: tuple[int, int]) -> Floats:
    """float32 [N, 4]: the boxes as the prompts move them in the mean."""
    every = [moved(found, prompt.vectors, size) for prompt in prompts]
    boxes: Floats = np.mean(every, axis=0, dtype=np.float32)
    return boxes


def _calibrated_threshold(folder: Path) -> float:
    """What ``viper.json`` in the checkpoint's folder states, if there is one."""
    path = folder / "viper.json"
    if not path.is_file():
        return DEFAULT_THRESHOLD
    return float(json.loads(path.read_text("utf-8")).get("threshold", DEFAULT_THRESHOLD))


def _pixel_boxes(boxes: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """(cx, cy, w, h) as shares of the padded square -> clipped pixel corners of the picture.

    The square's side is the picture's longer side; padding lies right or below.
    """
    side = max(height, width)
    return pixel_boxes(boxes, (height, width), (side, side))
