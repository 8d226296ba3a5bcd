"""Panoptic segmentation with MaskFormer and its successors: the package's own or published.

``encode`` runs the first half of the network, ``segments`` the second and the library's
post-processing (:data:`FAMILIES` has both halves of each family). With learned prompts
``segments_adapted`` cuts out each segment, describes it by a second pass of the first half, and
renames those that a concept claims; see :mod:`~viper.models.vision.second_look`. Prompts of a
decoder stand beside the features that the transformer decoder of a MaskFormer reads; they change
outlines and no names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from viper.errors import ModelError, UsageError
from viper.models.libraries import Tensor, torch
from viper.models.loading import Checkpoint, stated
from viper.models.options import check_shares
from viper.models.vision import second_look
from viper.models.vision.boxes import mask_box, require_finite
from viper.models.vision.image_processing import preprocess
from viper.models.vision.roles import Floats, Mask, Pixels, Segment
from viper.models.vision.soft_prompts import LearnedPrompt, are_of_decoder

# Least score of a segment, and share of its own mask that it must keep beside the others; both are
# the defaults of the library's post-processing.
THRESHOLD = 0.5
OVERLAP = 0.8

# Side of a cut-out, as a share of the shorter side of the network's input: an object is then larger
# than in most pictures, for less than half of a picture's cost.
_LOOK = 2 / 3

# The side is a multiple of the backbone's stride, and at most the side of the pictures that
# backbones were first trained on.
_DIVISOR, _MOST_SIDE = 32, 224

# Maximum number of cut-outs in one forward pass: at 224 pixels as many pixels as one large picture.
_AT_ONCE = 16


@dataclass(frozen=True)
class SegmenterEncoding:
    """Encoding of one picture.

    Attributes:
        size: (height, width) of the picture in pixels.
        kept: output of the network's first half.
        shrunk: uint8 [h, w, 3], the picture for the second pass, scaled down if it is large.
    """

    size: tuple[int, int]
    kept: Any
    shrunk: Pixels


class MaskFormerSegmenter(Checkpoint):
    """The ``Segmenter`` role on a universal segmenter of transformers.

    Not for several threads at once; the toolbox holds a lock for each model.

    Args:
        model: the network, of one of :data:`~viper.models.vision.segmenter_maskformer.FAMILIES`.
        processor: its image processor, which also builds segments from the query outputs.
        name: goes into traces and cache keys.
        threshold: least score of a segment, in [0, 1].
        overlap: share of its own mask that a segment must keep beside the others, in [0, 1].
        background: labels that name no object; their segments are dropped.

    Raises:
        ModelError: the network is of another family.
        ProfileError: a threshold or an overlap outside [0, 1].
    """

    network = "transformers:AutoModelForUniversalSegmentation"

    def __init__(
        self,
        model: Any,
        processor: Any,
        name: str,
        *,
        threshold: float = THRESHOLD,
        overlap: float = OVERLAP,
        background: Sequence[str] = (),
    ) -> None:
        family = model.config.model_type
        if family not in FAMILIES:
            raise ModelError(
                f"{name}: a {family} model cannot segment here; known: {', '.join(FAMILIES)}"
            )
        check_shares(threshold=threshold, overlap=overlap)
        super().__init__(model, processor, name)
        self._halves = FAMILIES[family]
        self._cuts = {"threshold": threshold, "overlap_mask_area_threshold": overlap}
        self._background = frozenset(map(_plain, background))

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> Self:
        """Load like every checkpoint; ``background`` of None takes that of ``viper.json``, if
        stated.

        Raises:
            ModelError: nothing loadable there, or not a supported segmenter.
            ProfileError: a threshold or an overlap outside [0, 1].
        """
        if options.get("background") is None:
            none: tuple[str, ...] = ()
            options["background"] = stated(source, "background", _as_labels, none)
        return super().from_pretrained(source, **options)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of segments in the checkpoint's order, without the background's."""
        names = [name for _, name in sorted(self._model.config.id2label.items())]
        return tuple(name for name in names if _plain(name) not in self._background)

    def encode(self, pixels: Pixels) -> SegmenterEncoding:
        """Return the output of backbone and pixel decoder for one picture, uint8 [H, W, 3]."""
        inputs = self._inputs([pixels])
        with torch.inference_mode():
            output = self._halves.look(self._model, inputs)
        height, width = pixels.shape[:2]
        small = second_look.shrink(pixels, second_look.KEPT_SIDES * max(inputs.shape[-2:]))
        return SegmenterEncoding((height, width), output, small)

    def query_logits(self, encoding: SegmenterEncoding) -> QueryLogits:
        """Return all query outputs of the transformer decoder for a picture."""
        with torch.inference_mode():
            return self._halves.ask(self._model, encoding.kept)

    @property
    def decoder_width(self) -> int:
        """Return the width of vectors that :meth:`decoded` takes.

        Raises:
            UsageError: a network whose decoder takes none. The attention of Mask2Former is limited
                to the outlines so far, so nothing would read further inputs.
        """
        if self._model.config.model_type != "maskformer":
            raise UsageError(
                f"{self.model_id}: only the decoder of a MaskFormer takes prompts, not that of a "
                f"{self._model.config.model_type}; learn without --decoder"
            )
        return int(self._model.config.decoder_config.hidden_size)

    def decoded(self, encoding: SegmenterEncoding, vectors: Tensor) -> QueryLogits:
        """Return the outputs of queries that also read vectors ``[N, W]``.

        Gradients reach the vectors.
        """
        # copies, because tensors of inference mode take part in no training
        embeddings, memory = (part.clone() for part in encoding.kept[1:])
        return _ask_maskformer(self._model, (None, embeddings, memory), vectors)

    def segments(self, encoding: SegmenterEncoding, names: Sequence[str] | None) -> list[Segment]:
        """Return the regions of the picture, best first; with ``names`` only those with these
        labels.

        The library's panoptic post-processing gives every pixel to one segment at most, so masks do
        not overlap. Names are compared without regard to case and outer spaces.
        """
        labels = None if names is None else frozenset(map(_plain, names))
        if labels is not None and not labels:
            return []
        return self._segments(encoding, self.query_logits(encoding), labels)

    def _segments(
        self, encoding: SegmenterEncoding, logits: QueryLogits, labels: frozenset[str] | None
    ) -> list[Segment]:
        """Return the regions that query outputs make; see :meth:`segments`."""
        parts = [logits.class_queries_logits.float(), logits.masks_queries_logits.float()]
        require_finite(self.model_id, "masks", *(each.cpu().numpy() for each in parts))
        # Instances stay separate. Older families need the option; newer ones do not have it.
        newer = self._model.config.model_type.startswith("eomt")
        fused: dict[str, Any] = {} if newer else {"label_ids_to_fuse": set()}
        (panoptic,) = self._processor.post_process_panoptic_segmentation(
            QueryLogits(*parts), target_sizes=[encoding.size], **self._cuts, **fused
        )
        numbers = panoptic["segmentation"].cpu().numpy()
        segments = []
        for entry in sorted(panoptic["segments_info"], key=lambda each: -each["score"]):
            label = self._model.config.id2label[entry["label_id"]]
            name, mask = _plain(label), np.asarray(numbers == entry["id"])
            if name not in self._background and mask.any() and (not labels or name in labels):
                segments.append(Segment(mask, label, float(entry["score"])))
        return segments

    def feature(self, encoding: SegmenterEncoding) -> Floats:
        """Return the feature that selects prompts for a picture, float32 [C].

        Raises:
            UsageError: a network that takes no soft prompts.
        """
        return self._maps(encoding)[-1][0].float().mean(dim=(1, 2)).cpu().numpy()

    def described(
        self, encoding: SegmenterEncoding
    ) -> tuple[list[Segment], second_look.Descriptions]:
        """Return the segments without prompts, and the features of each from a second pass.

        Raises:
            UsageError: a network that takes no soft prompts.
        """
        # The side of a cut-out, by the pixels that the network takes, ``[1, 3, H, W]``.
        shortest = min(self._maps(encoding)[0].shape[-2:])
        side = min(max(round(shortest * _LOOK / _DIVISOR) * _DIVISOR, _DIVISOR), _MOST_SIDE)
        segments = self.segments(encoding, None)
        # Without segments the whole picture runs through, to get the width of the features.
        masks = [entry.mask for entry in segments] or [np.ones(encoding.size, np.bool_)]
        parts = []
        for start in range(0, len(masks), _AT_ONCE):
            some = masks[start : start + _AT_ONCE]
            cuts = [_cut(encoding.shrunk, mask, side) for mask in some]
            inputs = self._inputs(cuts, do_resize=False)
            covers = np.stack([_cut(mask.astype(np.uint8) * 255, mask, side) for mask in some])
            with torch.inference_mode():
                maps = self._halves.look(self._model, inputs)[0]
                shares = torch.from_numpy(covers[:, None]).to(inputs.device) / 255
                parts.append(second_look.mask_features(shares, maps))
        features = np.concatenate([entry.features for entry in parts])[: len(segments)]
        return segments, second_look.Descriptions(features, parts[0].widths)

    def segments_adapted(
        self, encoding: SegmenterEncoding, prompts: Sequence[LearnedPrompt]
    ) -> list[Segment]:
        """Return all segments; one that a concept claims has the concept's name and score.

        If several concepts claim a segment, the highest score counts. Masks are those of
        ``segments``, and segments without a concept stay the same. Prompts of a decoder change
        masks instead and name nothing: CLOVA drops the loss of names, and SELECT chooses among the
        segments.
        """
        if are_of_decoder(prompts):
            vectors = torch.from_numpy(np.concatenate([each.vectors for each in prompts]))
            with torch.no_grad():
                return self._segments(encoding, self.decoded(encoding, vectors), None)
        segments, descriptions = self.described(encoding)
        if not segments or not prompts:
            return segments
        features = descriptions.features
        rows = [second_look.score_segments(features, each.vectors) for each in prompts]
        named = []
        for segment, column in zip(segments, np.stack(rows, axis=1), strict=True):
            best = int(column.argmax())
            claimed = Segment(segment.mask, prompts[best].concept, float(column[best]))
            named.append(claimed if column[best] > second_look.CUT else segment)
        return sorted(named, key=lambda each: -each.score)

    def _inputs(self, pictures: Sequence[Pixels], **how: Any) -> Any:
        batch = preprocess(self._processor, pictures, **how)
        return self._fitted({"pixel_values": batch["pixel_values"]})["pixel_values"]

    def _maps(self, encoding: SegmenterEncoding) -> tuple[Any, ...]:
        """Return the pixels of the network's input and the backbone's feature maps."""
        if not self._halves.takes_prompts:
            family = self._model.config.model_type
            able = ", ".join(name for name, halves in FAMILIES.items() if halves.takes_prompts)
            raise UsageError(
                f"{self.model_id}: a {family} model takes no soft prompts; known: {able}"
            )
        maps: tuple[Any, ...] = encoding.kept[0]
        return maps


def _cut(pixels: Pixels, mask: Mask, side: int) -> Pixels:
    """Return the cut-out of a mask's box from pixels of the same picture at any size."""
    box = np.array(mask_box(mask), np.float32) * (pixels.shape[1] / mask.shape[1])
    return second_look.cut_out(pixels, box, side)


def _as_labels(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
        raise ValueError(f"background must be a list of labels, not {value!r}")
    return tuple(value)


def _plain(label: str) -> str:
    return label.strip().casefold()


@dataclass(frozen=True)
class QueryLogits:
    """Outputs of queries, with the attribute names that the library's image processors expect.

    Attributes:
        class_queries_logits: float [1, Q, L + 1]; the last class stands for no segment.
        masks_queries_logits: float [1, Q, h, w].
    """

    class_queries_logits: Tensor
    masks_queries_logits: Tensor


@dataclass(frozen=True)
class Halves:
    """Network of a family in two halves: encoding of the picture, and queries about it.

    The first half (backbone and pixel decoder) is expensive and independent of the query; its
    output is kept as an encoding. The second (transformer decoder and heads) turns that into
    segments. Soft prompts use the backbone's feature maps. Without soft prompts both halves call
    the library's own modules, so the results are equal bit for bit.

    Attributes:
        look: (network, pixels float [B, 3, H, W]) to the encoding of a picture.
        ask: (network, encoding) to the outputs of the queries.
        takes_prompts: whether the first part of an encoding is the pixels of the network's input
            and the backbone's feature maps, float [B, C, h, w] each, the finest first.
    """

    look: Callable[[Any, Tensor], Any]
    ask: Callable[[Any, Any], QueryLogits]
    takes_prompts: bool = False


def _look_at_pixels(model: Any, pixels: Tensor) -> tuple[tuple[Tensor, ...], Tensor, Any]:
    """Return pixels and the backbone's maps, each pixel's embedding, and the decoder's memory.

    The memory of MaskFormer is the last map, that of Mask2Former has three scales.
    """
    output = model.model.pixel_level_module(pixels, output_hidden_states=True)
    maps = (pixels, *output.encoder_hidden_states)
    several = model.config.model_type == "mask2former"
    memory = output.decoder_hidden_states if several else maps[-1]
    return maps, output.decoder_last_hidden_state, memory


def _ask_maskformer(
    model: Any, encoding: tuple[Any, Tensor, Any], vectors: Tensor | None = None
) -> QueryLogits:
    _, embeddings, memory = encoding
    module = model.model.transformer_module
    output = module(memory) if vectors is None else _decode_beside(module, memory, vectors)
    states = output.last_hidden_state  # (1, Q, D)
    masks = torch.einsum("bqc,bchw->bqhw", model.mask_embedder(states), embeddings)
    return QueryLogits(model.class_predictor(states), masks)


def _decode_beside(module: Any, memory: Tensor, vectors: Tensor) -> Any:
    """Run a MaskFormer's transformer decoder as its module does, with more inputs to read."""
    features = memory if module.input_projection is None else module.input_projection(memory)
    places = module.position_embedder(features.shape, features.device, features.dtype)
    features, places = (part.flatten(2).transpose(1, 2) for part in (features, places))
    more, queries = vectors.to(features)[None], module.queries_embedder.weight[None]
    return module.decoder(
        inputs_embeds=torch.zeros_like(queries),
        encoder_hidden_states=torch.cat((features, more), dim=1),
        spatial_position_embeddings=torch.cat((places, torch.zeros_like(more)), dim=1),
        object_queries_position_embeddings=queries,
    )


def _ask_mask2former(model: Any, encoding: tuple[Any, Tensor, Any]) -> QueryLogits:
    _, embeddings, memory = encoding
    output = model.model.transformer_module(
        multi_scale_features=memory, mask_features=embeddings, output_hidden_states=True
    )
    states = output.intermediate_hidden_states[-1].transpose(0, 1)  # (1, Q, D)
    return QueryLogits(model.class_predictor(states), output.masks_queries_logits[-1])


# An encoding is the full output, because the queries see the picture together with the backbone.
_WHOLE = Halves(lambda model, pixels: model(pixel_values=pixels), lambda _, output: output)

# ``model_type`` of a checkpoint to its halves.
FAMILIES: Mapping[str, Halves] = MappingProxyType(
    {
        "maskformer": Halves(_look_at_pixels, _ask_maskformer, takes_prompts=True),
        "mask2former": Halves(_look_at_pixels, _ask_mask2former, takes_prompts=True),
        "eomt": _WHOLE,
        "eomt_dinov3": _WHOLE,
    }
)
