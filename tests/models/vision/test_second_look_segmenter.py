"""How prompts enter a segmenter, on tiny untrained MaskFormer and Mask2Former checkpoints."""

import numpy as np
import pytest

from tests.models.vision.tiny_segmenters import eomt, mask2former, maskformer, pictures, save
from viper.errors import UsageError
from viper.models.media import media_from
from viper.models.vision.second_look import ROW, mask_features, score_segments, segmenter_prompt
from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
from viper.models.vision.soft_prompts import AdaptableSegmenter, LearnedPrompt, NoSoftPrompts
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox


def loaded(folder):
    return MaskFormerSegmenter.from_pretrained(folder, threshold=0.0, overlap=0.0)


@pytest.fixture(scope="module", params=[maskformer, mask2former], ids=lambda make: make.__name__)
def segmenter(request, tmp_path_factory):
    return loaded(save(request.param, tmp_path_factory.mktemp(request.param.__name__)))


@pytest.fixture(scope="module")
def encoding(segmenter):
    return segmenter.encode(pictures()[0])


def same(one, other):
    return (one.label, one.score) == (other.label, other.score) and (one.mask == other.mask).all()


def finding(features, place, by=50.0):
    """A prompt that is sure of one segment and of no other one."""
    mine, others = features[place], np.delete(features, place, axis=0)
    away = mine - others.mean(0)
    middle = max((others @ away).max(), -np.inf)
    scale = by / max(float(mine @ away - middle), 1e-6)
    return segmenter_prompt(away * scale, -scale * float(mine @ away + middle) / 2)


def test_it_can_be_taught(segmenter):
    assert isinstance(segmenter, AdaptableSegmenter)


def test_what_is_described_is_what_is_found_without(segmenter, encoding):
    plain = segmenter.segments(encoding, None)
    found, known = segmenter.described(encoding)
    features = known.features
    assert sum(known.widths) == features.shape[1] and len(known.widths) >= 6
    assert len(plain) == len(found) > 1 and all(map(same, plain, found))
    assert features.shape[0] == len(found) and features.dtype == np.float32
    assert np.isfinite(features).all()
    assert len(np.unique(features.round(4), axis=0)) == len(found)


def test_no_sure_concept_leaves_all_as_it_was(segmenter, encoding):
    plain = segmenter.segments(encoding, None)
    width = sum(segmenter.described(encoding)[1].widths)
    unsure = LearnedPrompt("egg", segmenter_prompt(np.zeros(width, np.float32), -3.0))
    for prompts in ([unsure], []):
        assert all(map(same, plain, segmenter.segments_adapted(encoding, prompts)))


def test_a_sure_concept_names_its_segment_and_leaves_the_others(segmenter, encoding):
    plain, known = segmenter.described(encoding)
    features = known.features
    place = next(
        i for i in range(len(plain)) if (features @ (features[i] - features.mean(0))).argmax() == i
    )
    adapted = segmenter.segments_adapted(encoding, [LearnedPrompt("egg", finding(features, place))])
    (egg,) = [one for one in adapted if one.label == "egg"]
    assert (egg.mask == plain[place].mask).all() and 0.5 < egg.score <= 1
    others = [one for one in adapted if one is not egg]
    assert all(map(same, others, [one for i, one in enumerate(plain) if i != place]))
    assert [one.score for one in adapted] == sorted((one.score for one in adapted), reverse=True)
    assert (np.stack([one.mask for one in adapted]).sum(0) <= 1).all()


def test_the_surest_of_several_concepts_counts(segmenter, encoding):
    width = sum(segmenter.described(encoding)[1].widths)
    zeros = np.zeros(width, np.float32)
    prompts = [
        LearnedPrompt("egg", segmenter_prompt(zeros, 1.0)),
        LearnedPrompt("disc", segmenter_prompt(zeros, 2.0)),
    ]
    for order in (prompts, prompts[::-1]):
        assert {one.label for one in segmenter.segments_adapted(encoding, order)} == {"disc"}


def test_being_taught_changes_no_bit(segmenter):
    (picture, *_) = pictures()
    state = {name: each.clone() for name, each in segmenter._model.state_dict().items()}
    before = segmenter.segments(segmenter.encode(picture), None)
    encoding = segmenter.encode(picture)
    segmenter.feature(encoding)
    width = sum(segmenter.described(encoding)[1].widths)
    segmenter.segments_adapted(
        encoding, [LearnedPrompt("egg", segmenter_prompt(np.zeros(width, np.float32), 2.0))]
    )
    assert all(map(same, before, segmenter.segments(encoding, None)))
    now = segmenter._model.state_dict()
    assert all((now[name] == state[name]).all() for name in state)


def test_the_feature_tells_pictures_apart(segmenter):
    one, two = (segmenter.feature(segmenter.encode(picture)) for picture in pictures())
    assert one.dtype == np.float32 and one.shape == two.shape and not np.allclose(one, two)


def test_a_prompt_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"a prompt of shape \(1, 4\); .* are \(1, 256\)"):
        score_segments(np.zeros((2, 5), np.float32), np.zeros((1, 4), np.float32))


def test_a_query_longer_than_a_row_goes_on_in_the_next():
    query = np.arange(ROW + 3, dtype=np.float32) / ROW
    vectors = segmenter_prompt(query, -2.0)
    assert vectors.shape == (2, ROW) and not vectors[1, 4:].any()
    features = np.zeros((2, ROW + 3), np.float32)
    features[1, -1] = 2.0
    logits = [-2.0, 2 * query[-1] - 2.0]
    assert score_segments(features, vectors) == pytest.approx(
        [1 / (1 + np.exp(-x)) for x in logits]
    )


def cutouts(side=24):
    """One cut-out: red above, blue below; the object is the upper half."""
    import torch

    picture, covers = torch.zeros(1, 3, side, side), torch.zeros(1, 1, side, side)
    picture[0, 0, : side // 2], picture[0, 2, side // 2 :] = 0.5, 2.0
    covers[0, 0, : side // 2] = 1.0
    return picture, covers


def test_a_description_holds_colours_outline_pixels_and_maps():
    import torch

    picture, covers = cutouts()
    values = torch.tensor([[[1.0, 1.0], [10.0, 20.0]], [[3.0, 3.0], [40.0, 10.0]]])[None]
    known = mask_features(covers, [picture, values])
    assert known.widths == (12, 144, 108, 32, 2, 2) and known.features.shape == (1, 300)
    parts = np.split(known.features[0], np.cumsum(known.widths)[:-1])
    assert parts[0].tolist() == pytest.approx([0.5, 0, 0, 0, 0, 0, 0.25, 0, 0, 0, 0, 0])
    assert parts[1].tolist() == [1.0] * 72 + [0.0] * 72
    assert parts[2].tolist() == [0.5] * 18 + [0.0] * 90, "what is behind it is not there"
    # Each cell is normalised over its channels: 1 and 3 are -1 and 1.
    assert parts[3].tolist() == pytest.approx([-1] * 8 + [0] * 8 + [1] * 8 + [0] * 8, abs=1e-4)
    assert parts[4].tolist() == pytest.approx([-1, 1], abs=1e-4)
    assert parts[5].tolist() == pytest.approx([0, 0], abs=1e-4)


def test_a_texture_is_in_the_deviations():
    import torch

    picture, covers = cutouts()
    values = torch.tensor([[[1.0, 3.0], [0.0, 0.0]], [[3.0, 1.0], [0.0, 0.0]]])[None]
    known = mask_features(covers, [picture, values])
    assert known.features[0, -4:].tolist() == pytest.approx([0, 0, 1, 1], abs=1e-4)


def test_colours_behind_the_edge_of_an_outline_do_not_count():
    import torch

    picture, covers = torch.zeros(1, 3, 32, 32), torch.zeros(1, 1, 32, 32)
    picture[0, 1, 8:24, 8:24] = 1.0
    covers[0, 0, 6:26, 6:26] = 1.0  # two pixels too much on each side
    known = mask_features(covers, [picture])
    assert known.features[0, :6].tolist() == pytest.approx([0, 1, 0, 0, 0, 0])


def test_a_network_that_keeps_its_states_in_says_that_it_cannot_be_taught(tmp_path):
    whole = loaded(save(eomt, tmp_path / "eomt"))
    encoding = whole.encode(pictures()[0])
    with pytest.raises(
        UsageError, match="an? eomt model takes no soft prompts; known: maskformer, ma"
    ):
        whole.described(encoding)
    with pytest.raises(UsageError, match="takes no soft prompts"):
        whole.feature(encoding)


def test_half_precision_is_taught_too(tmp_path):
    folder = save(maskformer, tmp_path / "half")
    half = MaskFormerSegmenter.from_pretrained(
        folder, threshold=0.0, overlap=0.0, dtype="bfloat16", device="cpu"
    )
    found, known = half.described(half.encode(pictures()[0]))
    assert len(found) == len(known.features) and np.isfinite(known.features).all()


def test_a_hub_that_was_taught_nothing_asks_for_no_feature(segmenter, monkeypatch):
    for name in ("feature", "described", "segments_adapted"):
        monkeypatch.setattr(segmenter, name, None)
    toolbox = Toolbox(ModelSet({"segmenter": lambda: segmenter}), ToolSettings())
    said = []
    for each in (toolbox, toolbox.with_soft_prompts(NoSoftPrompts())):
        session = each.session(media_from([pictures()[0]]))
        ref = session.patch_ref("image0", (0, 0, 60, 30))
        said.append(session.call("segment", (ref,), {}, None))
    assert said[0] == said[1]
