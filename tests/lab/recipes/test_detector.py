from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from viper.embedded import WEIGHTS
from viper.models.vision.detector_owlv2 import Owlv2Detector
from viper.models.vision.roles import Detection
from viper.schema import PixelBox
from viper_lab.recipes import detector as recipe
from viper_lab.recipes.detector_batches import (
    Labels,
    View,
    assign_patches,
    batch_targets,
    cut_boxes,
    padded_square,
    random_view,
    select_patches,
)
from viper_lab.recipes.detector_model import (
    DetectorShape,
    DetectorTrainer,
    generalised_iou,
    new_model,
)
from viper_lab.recipes.detector_phrases import (
    attributes_of,
    corpus,
    draw_phrases,
    is_held_out,
    matches,
    phrase_text,
)
from viper_lab.recipes.detector_score import (
    PhraseMatches,
    Ranking,
    average_precision,
    best_threshold,
    detector_figures,
    judge,
    phrases_of,
)
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.text import train_tokenizer
from viper_lab.world import stills
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.scene import SceneObject
from viper_lab.world.vocabulary import COLOURS, RESERVED_SHAPES, SHAPES

SMALL = DetectorShape(
    image_size=64, width=48, layers=2, heads=2, mlp=96, text_width=32, text_layers=1, text_mlp=64
)


def thing(size: str, colour: str, material: str, shape: str) -> SceneObject:
    return SceneObject(shape, colour, material, size, (0.0, 0.0, 0.0))


OBJECTS = [thing("small", "red", "metal", "cube"), thing("big", "blue", "rubber", "ball")]


def test_a_phrase_names_what_it_asks_for() -> None:
    rows = attributes_of(OBJECTS)
    assert phrase_text(rows[0].tolist()) == "small red metal cube"
    assert phrase_text((-1, 0, -1, -1), "thing", plural=True) == "red things"
    asked = np.asarray([[-1, -1, -1, -1], rows[0], [-1, COLOURS.index("blue"), -1, -1]])
    np.testing.assert_array_equal(matches(rows, asked), [[1, 1, 0], [1, 0, 1]])


def test_reserved_values_match_no_word() -> None:
    row = attributes_of([thing("small", "red", "metal", RESERVED_SHAPES[0])])
    asked = np.asarray([[-1, -1, -1, k] for k in range(len(SHAPES))])
    assert not matches(row, asked).any()
    assert not any(word in text for text in corpus() for word in RESERVED_SHAPES)


def test_drawn_phrases_differ_and_never_name_a_held_out_pair() -> None:
    present = attributes_of(OBJECTS)
    absent = 0
    for seed in range(20):
        drawn = draw_phrases(np.random.default_rng(seed), present, 40)
        assert len(set(map(tuple, drawn.queries.tolist()))) == len(drawn.texts) == 40
        assert not any(is_held_out(row) for row in drawn.queries.tolist())
        absent += int((~matches(present, drawn.queries).any(axis=0)).sum())
    assert absent > 100


def test_the_square_is_what_the_library_makes() -> None:
    from transformers import Owlv2ImageProcessor

    processor = Owlv2ImageProcessor(size={"height": 64, "width": 64})
    for height, width in [(48, 64), (40, 30)]:
        image = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        theirs = processor([image], return_tensors="pt")["pixel_values"][0]
        ours = padded_square(torch.from_numpy(image).permute(2, 0, 1) / 255, 64)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_window_keeps_clips_and_doubts() -> None:
    boxes = np.array([[0, 0, 10, 10], [8, 0, 28, 20], [50, 0, 60, 10]], np.float32)
    kept, unclear, rows = cut_boxes(boxes, (6, 0, 30, 30))
    np.testing.assert_allclose(kept, [[2, 0, 22, 20]])
    np.testing.assert_allclose(unclear, [[0, 0, 4, 10]])
    assert rows.tolist() == [False, True, False]


def test_a_mirrored_box_still_covers_its_object() -> None:
    image = np.zeros((48, 64, 3), np.uint8)
    image[10:20, 40:60] = 255
    labels = Labels(np.array([[40, 10, 60, 20]], np.float32), attributes_of(OBJECTS[:1]))
    for seed in range(8):
        view = random_view(image, labels, np.random.default_rng(seed), 64, windowed=seed > 3)
        for x0, y0, x1, y1 in np.round(view.boxes).astype(int):
            inside = view.pixels[:, y0 + 1 : y1 - 1, x0 + 1 : x1 - 1]
            assert inside.mean() > view.pixels.mean() + 0.5


def test_every_object_gets_a_patch_of_its_own_but_never_in_the_last_column() -> None:
    boxes = np.array([[20, 20, 30, 30], [21, 21, 29, 29], [56, 0, 64, 10]], np.float32)
    cells = assign_patches(boxes, SMALL)
    assert len(set(cells.tolist())) == 3
    assert cells[0] == 1 * SMALL.grid + 1
    assert (cells % SMALL.grid < SMALL.grid - 1).all()


def test_targets_name_boxes_and_attributes() -> None:
    boxes = np.array([[8, 8, 24, 24]], np.float32)
    unclear = np.array([[48, 48, 64, 64]], np.float32)
    view = View(torch.zeros(3, 64, 64), boxes, attributes_of(OBJECTS[:1]), unclear)
    wanted = np.asarray([[-1, -1, -1, -1], attributes_of(OBJECTS)[1]])
    targets = batch_targets([view], wanted, SMALL)
    cell = int(assign_patches(boxes, SMALL)[0])
    assert targets.positive[0].nonzero().tolist() == [[cell, 0]]
    np.testing.assert_allclose(targets.boxes[0, cell], [0.25, 0.25, 0.25, 0.25])
    assert targets.weight[0, cell].tolist() == [1, 1]
    assert 0 < targets.weight[0, cell + 1, 0] < 1
    assert targets.weight[0, cell + 1, 1] == 1
    assert targets.weight[0, -1].tolist() == [0, 0]
    kept = select_patches(targets, 6, np.random.default_rng(0))
    assert cell in kept[0].tolist()
    assert targets.at(kept).main.sum() == 1


def test_overlap_of_boxes() -> None:
    a = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1]])
    b = torch.tensor([[0.0, 0, 1, 1], [2, 0, 3, 1]])
    np.testing.assert_allclose(generalised_iou(a, b), [1, -1 / 3], atol=1e-5)


def test_the_first_loss_is_small_and_falls_on_coloured_rectangles() -> None:
    torch.manual_seed(0)
    tokenizer = train_tokenizer(corpus(), 60)
    trainer = DetectorTrainer(new_model(SMALL, tokenizer))
    image = np.zeros((48, 64, 3), np.uint8)
    image[4:20, 4:20], image[24:44, 34:54] = (255, 0, 0), (0, 0, 255)
    boxes = np.array([[4, 4, 20, 20], [34, 24, 54, 44]], np.float32)
    labels = Labels(boxes, attributes_of(OBJECTS))
    rng = np.random.default_rng(0)
    view = random_view(image, labels, rng, 64, windowed=False)
    wanted = np.concatenate((attributes_of(OBJECTS), [[-1, -1, -1, -1]]))
    targets = batch_targets([view], wanted, SMALL)
    tokens = tokenizer(
        ["small red metal cube", "big blue rubber ball", "object"],
        padding=True,
        return_tensors="pt",
    )
    every = torch.arange(SMALL.grid**2)[None]
    optimizer = torch.optim.AdamW(trainer.parameters(), lr=3e-3)
    losses = []
    for _ in range(25):
        parts = trainer.losses(
            view.pixels[None], tokens["input_ids"], tokens["attention_mask"], targets, every
        )
        loss = torch.stack(list(parts.values())).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[0] < 20
    assert losses[-1] < 0.7 * losses[0]


def test_the_recipe_trains_on_stills_and_frames_of_another_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stills, "SHARD", 4)
    for name, count in (("TRAIN_STILLS", 4), ("TRAIN_FRAMES", 4), ("VAL_STILLS", 2)):
        monkeypatch.setattr(recipe, name, count)
    seen: list[tuple[int, ...]] = []

    def viewed(image: np.ndarray, *rest: Any) -> Any:
        seen.append(image.shape)
        return random_view(image, *rest)

    monkeypatch.setattr(recipe, "random_view", viewed)
    figures = recipe.train(TrainOptions(tmp_path / "out", tmp_path / "work", steps=2))
    assert set(seen) == {(144, 192, 3), (120, 160, 3)}
    assert "referring" in figures and (tmp_path / "out" / "model.safetensors").is_file()


def test_only_the_first_box_on_an_object_is_right() -> None:
    wanted = np.array([[0, 0, 10, 10]], np.float32)
    found = [Detection((0, 0, 10, 9), 0.9), Detection((0, 0, 10, 10), 0.8)]
    assert judge(found, wanted).hits.tolist() == [True, False]


def test_average_precision_of_a_known_ranking() -> None:
    answers = [
        PhraseMatches(np.array([0.9, 0.5]), np.array([True, False]), 1),
        PhraseMatches(np.array([0.7, 0.3]), np.array([False, True]), 1),
    ]
    # Ranked: hit, miss, miss, hit, of two objects: (1 + 1/2) / 2.
    ranking = Ranking.of(answers)
    assert average_precision(ranking, np.ones(2)) == pytest.approx(0.75)
    assert average_precision(ranking, np.array([2.0, 0.0])) == pytest.approx(1.0)
    assert np.isnan(average_precision(ranking, np.zeros(2)))


class PerfectDetector:
    """Answers from the ground truth of the one picture it is shown."""

    model_id = "perfect"

    def __init__(self, labels: Labels) -> None:
        rows = [
            row for kind in ("object", "shape", "colour_shape", "full") for row in phrases_of(kind)
        ]
        hits = matches(labels.attributes, np.asarray(rows))
        self._boxes: dict[str, list[PixelBox]] = {
            phrase_text(row): [tuple(box) for box in labels.boxes[hits[:, q]].tolist()]
            for q, row in enumerate(rows)
        }

    def encode(self, images: Sequence[np.ndarray]) -> list[None]:
        return [None for _ in images]

    def detect(self, encoding: None, phrases: Sequence[str]) -> list[list[Detection]]:
        return [[Detection(box, 0.8) for box in self._boxes[phrase]] for phrase in phrases]


def test_a_perfect_detector_scores_one() -> None:
    boxes = np.array([[4, 4, 20, 20], [34, 24, 54, 44]], np.float32)
    pictures = [(np.zeros((48, 64, 3), np.uint8), Labels(boxes, attributes_of(OBJECTS)))]
    detector = PerfectDetector(pictures[0][1])
    figures = detector_figures(detector, pictures)
    assert set(figures) == {"object", "shape", "colour_shape", "full", "referring"}
    assert all(figure.value == 1 for figure in figures.values())
    assert figures["referring"].n == 2
    assert best_threshold(detector, pictures) <= 0.8


@pytest.mark.models
def test_the_shipped_detector_finds_what_full_phrases_name() -> None:
    weights = WEIGHTS / "detector"
    assert sum(f.stat().st_size for f in weights.glob("*.safetensors")) < 16e6
    detector = Owlv2Detector.from_pretrained(weights)
    assert 0.1 < detector.default_threshold < 0.9
    pictures = []
    for index in range(4):
        scene = sample_scene("test", index)
        rendered = render_scene(scene)
        pictures.append((rendered.image, Labels(rendered.boxes, attributes_of(scene.objects))))
    figures = detector_figures(detector, pictures)
    assert figures["object"].value > 0.8
    assert figures["referring"].value > 0.8
