"""The segmenter's recipe: batches, initial weights, losses, figures, and a short training."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from viper.models.vision.roles import Segment
from viper_lab.recipes.segmenter import evaluate, export, mask_ious, paired_ious, segmented
from viper_lab.recipes.segmenter_model import (
    BACKGROUND,
    LABELS,
    Segmented,
    SegmenterShape,
    SegmenterTrainer,
    assigned,
    new_model,
    segmenter_batch,
)
from viper_lab.world.id_maps import id_map
from viper_lab.world.layout import sample_scene
from viper_lab.world.stills import FreshStills
from viper_lab.world.vocabulary import SHAPES

SMALL = SegmenterShape(
    widths=(8, 16, 24), features=32, embedding=16, width=32, heads=2, layers=2, mlp=32
)


@pytest.fixture(scope="module")
def pictures():
    stills = FreshStills.of_scenes("val", range(3))
    return segmented(stills, [id_map(truth.scene) for truth in stills.truths])


def test_pictures_carry_their_ids_and_shapes(pictures):
    first = pictures[0]
    scene = sample_scene("val", 0)
    assert len(pictures) == 3 and len(pictures[1:]) == 2
    assert [SHAPES[label] for label in first.labels] == [thing.shape for thing in scene.objects]
    assert set(np.unique(first.ids)) == set(range(len(scene.objects) + 1))


def test_masks_of_a_batch_share_out_every_pixel(pictures):
    batch = segmenter_batch([pictures[0], pictures[1]], np.random.default_rng(0))
    assert batch.pixels.shape == (2, 3, 144, 192)
    for masks, labels in zip(batch.masks, batch.labels, strict=True):
        assert masks.shape == (len(labels), 36, 48)
        assert labels[-1] == BACKGROUND and (labels[:-1] < BACKGROUND).all()
        assert torch.allclose(masks.sum(0), torch.ones(36, 48))


def test_a_batch_is_a_function_of_its_seed(pictures):
    first, same, other = (
        segmenter_batch([pictures[0]], np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first.pixels, same.pixels)
    assert not torch.equal(first.pixels, other.pixels)


def test_a_mirrored_picture_keeps_its_masks_in_place():
    """White things stay where the picture is white, whatever the augmentation."""
    ids = np.zeros((144, 192), np.uint8)
    ids[40:80, 20:60] = 1
    image = np.where(ids[..., None] > 0, 255, 0).astype(np.uint8).repeat(3, axis=2)
    picture = Segmented(image, ids, np.array([2]))
    for seed in range(12):
        batch = segmenter_batch([picture], np.random.default_rng(seed))
        bright = torch.nn.functional.avg_pool2d(batch.pixels, 4)[0, 0] > 0
        assert (bright != (batch.masks[0][0] > 0.5)).float().mean() < 0.01


def test_queries_look_around_their_own_points_at_first():
    torch.manual_seed(0)
    shape = SegmenterShape()
    transformer = new_model(shape).model.transformer_module
    attention = transformer.decoder.layers[0].encoder_attn
    memory = torch.Size((1, shape.width, 9, 12))
    places = transformer.position_embedder(memory, "cpu", torch.float32).flatten(2)[0].T
    with torch.no_grad():
        asked = attention.q_proj(transformer.queries_embedder.weight).unflatten(
            -1, (shape.heads, -1)
        )
        keys = attention.k_proj(places).unflatten(-1, (shape.heads, -1))
        weights = torch.einsum("qhd,khd->hqk", asked, keys).mul(attention.scaling).softmax(-1)
    across, down = shape.anchors
    for query in range(across * down):
        row, column = divmod(int(weights[:, query].mean(0).argmax()), 12)
        assert abs((row + 0.5) / 9 - (query // across + 0.5) / down) < 0.1
        assert abs((column + 0.5) / 12 - (query % across + 0.5) / across) < 0.1
    # The last query belongs to no point: it sees everything evenly.
    assert weights[:, -1].max() < 2 / 108 < weights[:, 0].max(-1).values.min()


def boxes(*corners):
    """Masks float [N + 1, 36, 48] of boxes (x0, y0, x1, y1), the background's last."""
    masks = torch.zeros(len(corners) + 1, 36, 48)
    for mask, (x0, y0, x1, y1) in zip(masks, corners, strict=False):
        mask[y0:y1, x0:x1] = 1
    masks[-1] = 1 - masks[:-1].amax(0)
    return masks


def test_objects_go_to_the_queries_at_their_middles():
    chances = torch.full((13, len(LABELS) + 1), 1 / 7)
    masks = boxes((0, 0, 12, 12), (36, 24, 48, 36))
    queries, objects = assigned(chances, masks, torch.tensor([0, 1, BACKGROUND]), (4, 3))
    assert dict(zip(objects.tolist(), queries.tolist(), strict=True)) == {0: 0, 1: 11, 2: 12}


def test_of_queries_as_near_the_surest_gets_the_object():
    chances = torch.full((13, len(LABELS) + 1), 0.1)
    masks, labels = boxes((6, 0, 18, 12)), torch.tensor([3, BACKGROUND])
    for surest in (0, 1):
        chances[surest, 3], chances[1 - surest, 3] = 0.6, 0.1
        queries, _ = assigned(chances, masks, labels, (4, 3))
        assert queries.tolist() == [surest, 12]


def test_two_objects_at_one_point_go_to_two_queries():
    chances = torch.full((13, len(LABELS) + 1), 1 / 7)
    masks = boxes((0, 0, 12, 12), (2, 2, 10, 10))
    queries, _ = assigned(chances, masks, torch.tensor([0, 1, BACKGROUND]), (4, 3))
    assert len(set(queries.tolist())) == 3


def test_a_few_steps_make_the_loss_smaller(pictures):
    torch.manual_seed(0)
    trainer = SegmenterTrainer(new_model(SMALL), SMALL)
    optimizer = torch.optim.AdamW(trainer.parameters(), lr=2e-3)
    totals = []
    for _ in range(15):
        batch = segmenter_batch(pictures[:1], np.random.default_rng(3))
        parts = trainer.losses(batch)
        total = torch.stack(list(parts.values())).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        totals.append(float(total.detach()))
    assert set(parts) == {"mask", "dice", "cross_entropy", "pixels", "places"}
    assert totals[-1] < 0.7 * totals[0]


def test_an_exported_model_is_read_back(tmp_path, pictures):
    from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter

    torch.manual_seed(0)
    model = new_model(SMALL).eval()
    export(model, tmp_path)
    assert json.loads((tmp_path / "viper.json").read_text()) == {"background": ["background"]}
    segmenter = MaskFormerSegmenter.from_pretrained(tmp_path, device="cpu")
    assert segmenter.labels == SHAPES and LABELS[BACKGROUND] not in segmenter.labels
    said = segmenter.query_logits(segmenter.encode(pictures[0].image))
    assert said.masks_queries_logits.shape == (1, 109, 36, 48)
    batch = segmenter_batch([pictures[0]], np.random.default_rng(0))
    assert torch.isfinite(model(batch.pixels).class_queries_logits).all()


def test_the_processor_sees_pictures_as_the_training_does(tmp_path, pictures):
    from viper.models.vision.image_processing import preprocess
    from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
    from viper_lab.recipes.object_views import normalised
    from viper_lab.recipes.segmenter_model import IMAGE_MEAN, IMAGE_STD

    export(new_model(SMALL).eval(), tmp_path)
    processor = MaskFormerSegmenter.from_pretrained(tmp_path, device="cpu")._processor
    image = pictures[0].image
    given = preprocess(processor, [image])["pixel_values"]
    seen = normalised(torch.from_numpy(image.copy())[None], IMAGE_MEAN, IMAGE_STD)
    assert torch.allclose(given, seen, atol=1e-4)


class Told:
    """A segmenter that says what a table holds for each picture."""

    model_id = "told"

    def __init__(self, answers):
        self._answers = answers

    def encode(self, pixels):
        return int(pixels[0, 0, 0])

    def segments(self, encoding, names):
        return self._answers[encoding]


def table(number):
    """A picture of two objects, a cube on the left and a cone on the right."""
    ids = np.zeros((20, 40), np.uint8)
    ids[5:15, 2:12], ids[5:15, 20:30] = 1, 2
    image = np.full((20, 40, 3), number, np.uint8)
    return Segmented(image, ids, np.array([SHAPES.index("cube"), SHAPES.index("cone")]))


def test_figures_count_labels_places_and_what_is_too_much():
    cube, cone = (table(0).ids == number for number in (1, 2))
    half = cone.copy()
    half[:, 24:] = False
    answers = [
        [Segment(cone, "cone", 0.9), Segment(cube, "cube", 0.8)],
        [Segment(cube, "ball", 0.9), Segment(half, "cone", 0.8)],
        [],
        [Segment(cube, "cube", 0.9), Segment(np.roll(cone, 4, axis=0), "cone", 0.3)],
    ]
    figures = evaluate(Told(answers), [table(number) for number in range(4)])
    assert figures["n"] == 8 and figures["segments"] == 6
    assert figures["found"] == pytest.approx(3 / 8)
    assert figures["located"] == pytest.approx(4 / 8)
    assert figures["iou"] == pytest.approx((1 + 1 + 1 + 0.4 + 1 + 6 / 14) / 8)
    assert figures["precision"] == pytest.approx(3 / 6)


def test_a_segment_counts_for_one_object():
    both = np.ones((4, 4), bool)
    masks = np.stack([both, both])
    ious = mask_ious(masks, [Segment(both, "cube", 1.0)])
    assert paired_ious(ious) == [(0, 1.0), (None, 0.0)]
    assert paired_ious(mask_ious(masks, [])) == [(None, 0.0), (None, 0.0)]
