"""Open-vocabulary detection with OWLv2: the package's own small one or a published checkpoint.

``encode`` runs the image tower once; ``detect`` compares its patches with each phrase and
suppresses near copies. With learned prompts ``detect_adapted`` cuts out the likely objects, runs
them through the tower again (``proposals``), scores them by the prompts and the rest of the phrase,
and moves their boxes; see :mod:`~viper.models.vision.second_look`. Prompts of a decoder
(``decoded``) change the boxes and scores of the patches instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viper.models.libraries import Tensor, torch
from viper.models.loading import Checkpoint, stated
from viper.models.vision import second_look
from viper.models.vision.boxes import overlaps, pixel_boxes, suppress
from viper.models.vision.image_processing import prepared, preprocess
from viper.models.vision.roles import Detection, Floats, Pixels
from viper.models.vision.soft_prompts import LearnedPrompt, are_of_decoder
from viper.schema import PixelBox
from viper.storage.cache import RecentTexts

# Threshold for a checkpoint whose folder states no calibrated one: twice the default of the
# library's post-processing, which is made for recall.
DEFAULT_THRESHOLD = 0.2

# Least score of a box that is moved a second time, which costs another run of the image tower. A
# less likely box is below every threshold.
MAYBE = 0.05

# Last layers of the image tower that take prompts of a decoder beside the patches. CLOVA speaks of
# the inputs of OWL-ViT's decoder; the network has none, its heads read the tower's last layer.
DECODER_LAYERS = 2

# Number of cached cut-outs and inputs of the last layers, because several prompts use one picture
# in a row. With a tower of width 768, cut-outs take 20 runs of it and 3 MB, inputs one and 11 MB.
_LOOKS = 16


@dataclass(frozen=True)
class Owlv2Encoding:
    """Output of the image tower for one picture.

    Attributes:
        features: float32 [P, D], one row per patch.
        boxes: float32 [P, 4], the box each patch proposes: (x0, y0, x1, y1) in pixels
            of the picture from its top-left corner, clipped to it.
        objectness: float32 [P], the logit that each box holds an object of any kind.
        size: (height, width) of the picture in pixels.
        kept: uint8 [h, w, 3], the picture for the second pass, scaled down if it is large.
    """

    features: Tensor
    boxes: NDArray[np.float32]
    objectness: NDArray[np.float32]
    size: tuple[int, int]
    kept: Pixels


@dataclass(frozen=True)
class Owlv2Input:
    """A picture before the image tower.

    Attributes:
        pixel_values: float32 [3, S, S], as the tower takes it.
        size, kept: as in :class:`Owlv2Encoding`.
    """

    pixel_values: Tensor
    size: tuple[int, int]
    kept: Pixels


class Owlv2Detector(Checkpoint):
    """The :class:`~viper.models.vision.roles.Detector` role on ``Owlv2ForObjectDetection``.

    Not for several threads at once; the toolbox holds a lock for each model.

    Args:
        model: the network.
        processor: its image processor and tokenizer (``Owlv2Processor``).
        name: goes into traces and cache keys.

    Attributes:
        default_threshold: the calibrated threshold of the checkpoint.
    """

    network = "transformers:Owlv2ForObjectDetection"
    image_guided = True
    readers = ("transformers:Owlv2Processor",)

    def __init__(self, model: Any, processor: Any, name: str) -> None:
        super().__init__(model, processor, name)
        self.default_threshold = DEFAULT_THRESHOLD
        self._phrases = RecentTexts[Any]()
        self._looks: deque[tuple[str, Owlv2Encoding, Any]] = deque(maxlen=_LOOKS)

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> Self:
        """Load like every checkpoint; ``viper.json`` in the folder may state the threshold.

        Raises:
            ModelError: there is no such checkpoint, or it is not an OWLv2.
        """
        detector = super().from_pretrained(source, **options)
        detector.default_threshold = stated(source, "threshold", float, DEFAULT_THRESHOLD)
        return detector

    def encode(self, images: Sequence[Pixels]) -> list[Owlv2Encoding]:
        """Return one encoding per image; the image tower runs once for all of them."""
        return self.encode_prepared([self.prepare(image) for image in images])

    @property
    def prepare(self) -> Callable[[Pixels], Owlv2Input]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        most = second_look.KEPT_SIDES * self._model.config.vision_config.image_size
        return partial(_prepared, self._processor.image_processor, most)

    def encode_prepared(self, inputs: Sequence[Owlv2Input]) -> list[Owlv2Encoding]:
        """Return one encoding per prepared picture."""
        if not inputs:
            return []
        batch = {"pixel_values": torch.stack([each.pixel_values for each in inputs])}
        model = self._model
        with torch.inference_mode():
            grid, _ = model.image_embedder(**self._fitted(batch))
            features = grid.flatten(1, 2)  # (B, P, D)
            boxes = model.box_predictor(features, grid).float().cpu().numpy()
            objectness = model.objectness_predictor(features).float().cpu().numpy()
        return [
            Owlv2Encoding(
                features[i].clone(),  # a row of the batch would keep the whole batch in memory
                _pixel_boxes(boxes[i], *each.size),
                objectness[i].copy(),
                each.size,
                each.kept,
            )
            for i, each in enumerate(inputs)
        ]

    def detect(self, encoding: Owlv2Encoding, phrases: Sequence[str]) -> list[list[Detection]]:
        """Return the boxes of each phrase after non-maximum suppression, best first.

        The library's post-processing gives every box to its best phrase only, so "cube" would lose
        the boxes of "red cube". Here phrases are independent.
        """
        if not phrases:
            return []
        rows = self._scores(encoding, phrases)
        return [suppress(encoding.boxes, row, self.model_id) for row in rows]

    def detect_like(
        self, encoding: Owlv2Encoding, source: Owlv2Encoding, examples: Sequence[PixelBox]
    ) -> list[Detection]:
        """Return boxes of what looks like boxes of another or the same picture, best first.

        The embedding of the patch whose box overlaps an example most stands for a phrase; of
        several examples the most similar one counts.

        Source: image guidance of OWL-ViT, ``Owlv2ForObjectDetection.image_guided_detection``.
        Differs: that takes the least usual of the patches that overlap a whole picture; here the
        box is known.
        """
        best = overlaps(np.array(examples, np.float32), source.boxes).argmax(axis=1)
        with torch.inference_mode():
            _, embeddings = self._model.class_predictor(source.features[None])
            queries = embeddings[0, torch.from_numpy(best)]
            logits, _ = self._model.class_predictor(encoding.features[None], queries[None])
            scores = logits[0].float().sigmoid().amax(dim=1).cpu().numpy()
        return suppress(encoding.boxes, scores, self.model_id)

    def feature(self, encoding: Owlv2Encoding) -> Floats:
        """Return the feature that selects prompts for a picture, float32 [D]: the mean of its
        patches.
        """
        return encoding.features.float().mean(0).cpu().numpy()

    def detect_adapted(
        self, encoding: Owlv2Encoding, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> list[Detection]:
        """Detect one phrase, which names the concepts of all the prompts.

        A box scores as its least likely concept, each by its prompt, and no higher than its
        probability to be an object. If the phrase says more, the unadapted detector scores its
        rest, and the geometric mean counts, concepts twice: the detector is less sure of the cube
        in a striped one. (Phrases all right: .574; .481 by the least likely part; 54 scenes of
        validation.)
        """
        if are_of_decoder(prompts):
            return suppress(*self._scored_patches(encoding, phrase, prompts), self.model_id)
        proposals, concepts, scores = self._scored_proposals(encoding, phrase, prompts)

        def mean_moves(proposals: second_look.Proposals) -> Floats:
            moved = (second_look.move_boxes(proposals, p.vectors, encoding.size) for p in prompts)
            return np.mean(list(moved), axis=0, dtype=np.float32)

        boxes = mean_moves(proposals)
        likely = np.flatnonzero(concepts >= MAYBE)
        if len(likely):  # these move once more, by the features of the boxes after the first move
            features = self._cutout_features(encoding, boxes[likely])
            again = second_look.Proposals(boxes[likely], features, proposals.members[likely])
            boxes[likely] = mean_moves(again)
        return suppress(boxes, scores, self.model_id)

    def surest(
        self, encoding: Owlv2Encoding, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> float:
        """Return the score of the best box of :meth:`detect_adapted`, without computing the
        boxes.
        """
        score = self._scored_patches if are_of_decoder(prompts) else self._scored_proposals
        return float(score(encoding, phrase, prompts)[-1].max(initial=0.0))

    @property
    def decoder_width(self) -> int:
        """Return the width of vectors that :meth:`decoded` takes."""
        return int(self._model.config.vision_config.hidden_size)

    def decoded(
        self, encoding: Owlv2Encoding, vectors: Tensor, phrases: Sequence[str]
    ) -> tuple[Tensor, Tensor]:
        """Run the last layers and the heads with vectors ``[N, W]`` beside the patches.

        Gradients reach the vectors.

        Returns:
            Logits ``[P, Q]`` of the phrases, and boxes ``[P, 4]``, (centre x, centre y, width,
            height) as shares of the padded square.
        """
        model, vision = self._model, self._model.owlv2.vision_model
        states = self._recent("states", encoding, self._decoder_states)
        hidden = torch.cat((states, vectors.to(states)[None]), dim=1)
        for layer in vision.encoder.layers[-DECODER_LAYERS:]:
            output = layer(hidden, None)
            hidden = output if isinstance(output, torch.Tensor) else output[0]
        hidden = vision.post_layernorm(hidden[:, : states.shape[1]])
        features = model.layer_norm(hidden[:, 1:] * hidden[:, :1])  # as `image_embedder` does
        texts = torch.stack(self._phrases.get(phrases, self._encoded_texts))
        logits, _ = model.class_predictor(features, texts[None])
        return logits[0].float(), model.box_predictor(features, features)[0].float()

    def _decoder_states(self, encoding: Owlv2Encoding) -> Tensor:
        """Return the input ``[1, P + 1, W]`` of the last layers."""
        vision = self._model.owlv2.vision_model
        last = (vision.pre_layernorm, *vision.encoder.layers[:-DECODER_LAYERS])[-1]
        with torch.no_grad():  # not inference mode, whose tensors take part in no training
            return self._watched(last, [encoding.kept])[1]

    def _watched(self, module: Any, pictures: Sequence[Pixels]) -> tuple[Tensor, Tensor]:
        """Run the image tower. Return its grid, and the output of one of its modules."""
        outputs: list[Any] = []
        hook = module.register_forward_hook(lambda _module, _inputs, out: outputs.append(out))
        try:
            batch = self._fitted(preprocess(self._processor.image_processor, pictures))
            grid, _ = self._model.image_embedder(**batch)
        finally:
            hook.remove()
        return grid, outputs[0] if isinstance(outputs[0], torch.Tensor) else outputs[0][0]

    def _scored_patches(
        self, encoding: Owlv2Encoding, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> tuple[Floats, Floats]:
        """Return each patch's box in pixels and its score for a phrase, with decoder prompts."""
        vectors = torch.from_numpy(np.concatenate([prompt.vectors for prompt in prompts]))
        names = [prompt.concept for prompt in prompts]
        with torch.no_grad():
            logits, boxes = self.decoded(encoding, vectors, names)
        concepts = logits.sigmoid().amin(dim=1).cpu().numpy()
        rest = second_look.rest_of(phrase, set(names))
        if rest != second_look.GENERAL_NOUN:  # as for proposals
            concepts = np.cbrt(self._scores(encoding, [rest])[0] * concepts**2)
        return _pixel_boxes(boxes.cpu().numpy(), *encoding.size), concepts

    def _scored_proposals(
        self, encoding: Owlv2Encoding, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> tuple[second_look.Proposals, Floats, Floats]:
        """Return likely objects, with float32 [N] probabilities to show all concepts, and the whole
        phrase.
        """
        proposals = self.proposals(encoding)
        chances = [second_look.score_proposals(proposals, each.vectors) for each in prompts]
        concepts = np.min(chances, axis=0)
        rest = second_look.rest_of(phrase, {prompt.concept for prompt in prompts})
        plain = proposals.best(self._scores(encoding, [rest])[0])
        if rest == second_look.GENERAL_NOUN:
            return proposals, concepts, np.minimum(plain, concepts)
        # The geometric mean of one plain score and two of the concepts: the plain detector is
        # unsure of the cube in a striped one, so the minimum would lose it (figures above).
        return proposals, concepts, np.cbrt(plain * concepts**2)

    def proposals(self, encoding: Owlv2Encoding) -> second_look.Proposals:
        """Return the likely objects of a picture after a second pass; see :class:`Proposals`."""
        proposals: second_look.Proposals = self._recent("proposals", encoding, self._proposals)
        return proposals

    def _proposals(self, encoding: Owlv2Encoding) -> second_look.Proposals:
        patches, members = second_look.likely_objects(encoding.boxes, encoding.objectness)
        boxes = encoding.boxes[patches]
        return second_look.Proposals(boxes, self._cutout_features(encoding, boxes), members)

    def _recent(
        self, what: str, encoding: Owlv2Encoding, compute: Callable[[Owlv2Encoding], Any]
    ) -> Any:
        """Return what was computed of a picture, if it is one of the last, else compute it."""
        for name, cached_encoding, cached in self._looks:
            if name == what and cached_encoding is encoding:
                return cached
        self._looks.append((what, encoding, compute(encoding)))
        return self._looks[-1][2]

    def _cutout_features(self, encoding: Owlv2Encoding, boxes: Floats) -> Floats:
        """Return the image tower's features of each box's cut-out, float32 [N, D]."""
        side, kept = self._model.config.vision_config.image_size, encoding.kept
        scaled = boxes * (kept.shape[1] / encoding.size[1])
        # Without boxes the whole picture runs through, to get the width of the features.
        cuts = [second_look.cut_out(kept, box, side) for box in scaled] or [kept]
        layers = self._model.owlv2.vision_model.encoder.layers
        with torch.inference_mode():
            grid, middle = self._watched(layers[(len(layers) - 1) // 2], cuts)
        return second_look.patch_features(middle[:, 1:], grid.flatten(1, 2))[: len(boxes)]

    def _scores(self, encoding: Owlv2Encoding, phrases: Sequence[str]) -> Floats:
        """Return the probability of each patch's box to show each phrase, float32 [Q, P]."""
        with torch.inference_mode():
            texts = torch.stack(self._phrases.get(phrases, self._encoded_texts))
            logits, _ = self._model.class_predictor(encoding.features[None], texts[None])
            return logits[0].float().sigmoid().T.cpu().numpy()

    def _encoded_texts(self, phrases: list[str]) -> list[Tensor]:
        """Return a normalised embedding float32 [D] per phrase; recent ones are cached."""
        tokens = self._text_inputs(self._processor.tokenizer, phrases)
        pooled = self._model.owlv2.get_text_features(**tokens).pooler_output
        # Copies: a row of the batch would keep the whole batch in memory.
        return [row.clone() for row in torch.nn.functional.normalize(pooled, dim=-1)]


def _prepared(image_processor: Any, most: int, image: Pixels) -> Owlv2Input:
    pixels, kept = prepared(image_processor, image), second_look.shrink(image, most)
    return Owlv2Input(pixels, image.shape[:2], kept)


def _pixel_boxes(boxes: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """Convert (cx, cy, w, h) as shares of the padded square to clipped pixel corners of the
    picture.

    The square's side is the picture's longer side. The padding is on the right or below.
    """
    side = max(height, width)
    return pixel_boxes(boxes, (height, width), (side, side))
