"""Trains prompts of a decoder: vectors beside its inputs, one set for each picture.

`DecoderTraining.learned` trains the vectors of each positive picture by the loss of its tool,
`LocDecoder` or `SegDecoder`; held-out pictures decide as for probes.

Source: CLOVA (Gao et al. 2024), supplement, secs. 8.2 and 8.3: 100 vectors, 100 steps of Adam.
LOC: 5e-4, focal loss over the concept, another name of the picture and 13 absent ones, L1 loss of
the boxes, stopped once its own picture is right, else discarded. SEG: 1e-1, the mask loss alone.
Differs: an OWL-ViT has no decoder, so the vectors stand beside the patches in the last layers of
its image tower. All prompts of a concept start from the same random vectors, since the mean of
prompts from different ones would be near none of them. Held-out pictures judge each prompt besides
its own picture.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from viper.models.vision.boxes import overlaps
from viper.models.vision.roles import Floats, Segment
from viper.models.vision.soft_prompts import DECODER_PROMPTS
from viper.tuning.soft_prompts import base
from viper.tuning.soft_prompts.annotated import AnnotatedTuner
from viper.tuning.soft_prompts.loc import CUT, VALIDATED_IOU, LocTuner
from viper.tuning.soft_prompts.pasting import MaskedPicture
from viper.tuning.soft_prompts.seg import SAME, SegTuner, mask_ious

if TYPE_CHECKING:
    from torch import Tensor

# Deviation of the first vectors, that of the networks' own embeddings.
START = 0.02

# Names that a picture does not show, in the focal loss.
ABSENT_NAMES = 13

# Weights of the focal and the dice loss of masks (MaskFormer, Cheng et al. 2021).
MASK_FOCAL, MASK_DICE = 20.0, 1.0

# Largest loss of outlines in held-out pictures without the concept.
MOST_LOST = 0.05


class DecoderTraining(AnnotatedTuner[Any]):
    """The training that both tools share.

    Attributes:
        rate: learning rate of Adam by default.
        unfit: why a prompt is discarded that never makes its own picture right; "" if it need not.
    """

    usual_steps = 100
    is_alone = True
    rate: ClassVar[float]
    unfit: ClassVar[str] = ""

    def learned(self) -> Iterator[tuple[Floats, str]]:
        """Train the vectors of each positive picture. Raises UsageError without a decoder."""
        import torch

        with self.using() as backend:
            self.originals = [self.encoded(backend, scene) for scene in self.scenes]
            shape = (DECODER_PROMPTS, backend.decoder_width)
        generator = torch.Generator().manual_seed(self.options.seed)
        start = START * torch.randn(shape, generator=generator)
        on_step = base.Steps(self.on_progress, len(self.helds) * self.steps)
        for at in range(len(self.helds)):
            vectors, why = start.clone().requires_grad_(), self.unfit
            adam = torch.optim.Adam([vectors], lr=self.options.rate or self.rate)
            lesson = self.lesson(at)
            for step in range(self.steps):
                with self.using() as backend, torch.enable_grad():
                    loss, is_right = self.loss(backend, at, lesson, vectors)
                    # not backward(), which would also fill the gradients of the weights
                    (vectors.grad,) = torch.autograd.grad(loss, [vectors])
                if is_right:
                    why = ""
                    on_step(self.steps - step)
                    break
                adam.step()
                on_step()
            yield vectors.detach().numpy(), why

    def encoded(self, backend: Any, scene: MaskedPicture) -> Any:
        """Return the backend's encoding of a picture."""
        return backend.encode(scene.pixels)

    @abstractmethod
    def lesson(self, at: int) -> Any:
        """Return what the loss of a positive picture compares with."""

    @abstractmethod
    def loss(self, backend: Any, at: int, lesson: Any, vectors: Tensor) -> tuple[Tensor, bool]:
        """Return the loss of a positive picture, and whether it is right already."""


class LocDecoder(DecoderTraining, LocTuner):
    """The tuner of ``find`` by prompts beside the patches of an OWLv2."""

    rate = 5e-4
    unfit = "not right in its own picture when training ended"

    def encoded(self, backend: Any, scene: MaskedPicture) -> Any:
        return backend.encode([scene.pixels])[0]

    def lesson(self, at: int) -> tuple[list[str], Any, Any]:
        """Return the names, and of each object in question the name's index and the box."""
        import torch
        from transformers.image_transforms import corners_to_center_format

        picture, rng = self.data.positives[at], np.random.default_rng([self.options.seed, 31, at])
        shown = [picture.things[place].labels for place in picture.positives]
        own = {label for labels in shown for label in labels}
        others = sorted({thing.labels[0] for thing in picture.things if not own & {*thing.labels}})
        other = [others[int(rng.integers(len(others)))]] if others else []
        absent = sorted(picture.absent - own)
        chosen = rng.permutation(len(absent))[:ABSENT_NAMES]
        names = [self.data.concept, *other, *(absent[place] for place in chosen)]
        targets = [(0, picture.things[place].box) for place in picture.positives]
        targets += [(1, thing.box) for thing in picture.things if {*other} & {*thing.labels}]
        corners: Any = torch.tensor([box for _, box in targets])
        corners /= max(self.scenes[at].pixels.shape[:2])
        kinds = np.array([name for name, _ in targets])
        return names, kinds, corners_to_center_format(corners)

    def loss(self, backend: Any, at: int, lesson: Any, vectors: Tensor) -> tuple[Tensor, bool]:
        import torch
        from scipy.optimize import linear_sum_assignment
        from transformers.image_transforms import center_to_corners_format
        from transformers.models.maskformer.modeling_maskformer import sigmoid_focal_loss

        names, kinds, boxes = lesson
        logits, places = backend.decoded(self.originals[at], vectors, names)  # (P, Q), (P, 4)
        boxes, chances = boxes.to(places), logits.sigmoid()
        apart = (places[:, None] - boxes[None]).abs().sum(dim=-1)  # (P, M)
        patches, order = linear_sum_assignment((apart - chances[:, kinds]).detach().cpu().numpy())
        kinds, boxes = kinds[order], boxes[order]
        truth = torch.zeros_like(logits)
        truth[patches, kinds] = 1
        # with the weight and the exponent of OWL-ViT; it returns the mean of the names, not the sum
        focal = len(names) * sigmoid_focal_loss(logits, truth, len(patches))
        off = (places[patches] - boxes).abs().sum() / len(patches)
        pairs: Any = torch.stack((places[patches], boxes)).detach()
        corners: Any = center_to_corners_format(pairs)
        near = float(np.diag(overlaps(*corners.cpu().numpy())).mean())
        best = logits[patches].argmax(dim=1).cpu().numpy() == kinds
        is_sure = bool(best.all()) and bool((chances[patches, kinds] >= CUT).all())
        return focal + off, is_sure and near > VALIDATED_IOU


class SegDecoder(DecoderTraining, SegTuner):
    """The tuner of ``segment`` by prompts beside the features of a MaskFormer.

    They teach outlines and no names, as in the paper, so outlines of any name are judged.
    """

    rate = 1e-1

    def lesson(self, at: int) -> Tensor:
        """Return float [M, H, W]: the masks of the objects that show the concept."""
        import torch

        things = self.scenes[at].things
        return torch.from_numpy(np.stack([thing.mask for thing in things if thing.shown])).float()

    def loss(self, backend: Any, at: int, lesson: Any, vectors: Tensor) -> tuple[Tensor, bool]:
        from scipy.optimize import linear_sum_assignment
        from torch.nn.functional import interpolate
        from transformers.models.maskformer import modeling_maskformer as official

        masks = backend.decoded(self.originals[at], vectors).masks_queries_logits[0].float()
        truth = interpolate(lesson[None].to(masks), masks.shape[-2:], mode="area")[0]
        masks, truth = masks.flatten(1), truth.flatten(1)
        cost = MASK_FOCAL * official.pair_wise_sigmoid_focal_loss(masks, truth)
        cost = cost + MASK_DICE * official.pair_wise_dice_loss(masks, truth)
        rows, order = linear_sum_assignment(cost.detach().cpu().numpy())
        pair = (masks[rows], truth[order], len(rows))
        focal, dice = official.sigmoid_focal_loss(*pair), official.dice_loss(*pair)
        return MASK_FOCAL * focal + MASK_DICE * dice, False

    def share(self, result: Sequence[Segment], scene: MaskedPicture) -> float:
        counted = [thing for thing, _ in scene.counted()]
        targets = [thing.mask for thing in counted if thing.shown] or [t.mask for t in counted]
        near = mask_ious(targets, [segment.mask for segment in result])
        return float((near.max(axis=1, initial=0.0) >= SAME).mean()) if targets else 1.0

    def why_not(self, at: int, before: Floats, after: Floats) -> str:
        here = np.array([place < len(self.data.positives) for place in self.helds[at]])
        if after[here].mean() <= before[here].mean():
            return (
                f"no better on {here.sum()} held-out pictures of it: {after[here].mean():.2f} of "
                f"the outlines right, {before[here].mean():.2f} without"
            )
        if (before - after)[~here].sum() > MOST_LOST * (~here).sum():
            return f"harmful: spoils outlines in {(~here).sum()} held-out pictures without it"
        return ""
