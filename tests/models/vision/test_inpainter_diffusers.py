"""The inpainting backend on a tiny pipeline of the real classes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.models.vision.tiny_diffusion import picture, tiny_pipeline
from viper.errors import ModelError, ProfileError
from viper.models.loading import model_id
from viper.models.vision.adapter_inpainter import encode_prompts
from viper.models.vision.inpainter_diffusers import DiffusersInpainter
from viper.profiles.backends import check_options, load_backend
from viper.testing.conformance import check_inpainter


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_pipeline(tmp_path_factory.mktemp("tiny-inpainter"))


@pytest.fixture(scope="module", params=["of four channels", "of six"])
def inpainter(folder, request, tmp_path_factory):
    """Of latents as published checkpoints have them, and of wider ones."""
    if request.param == "of six":
        folder = tiny_pipeline(tmp_path_factory.mktemp("wide"), channels=13, latents=6)
    return DiffusersInpainter.from_pretrained(
        folder, steps=2, guidance=2.0, safety_checker=False, device="cpu", local_only=True
    )


def box(height=40, width=70):
    mask = np.zeros((height, width), bool)
    mask[10:25, 20:45] = True
    return mask


def test_it_keeps_the_rules_of_its_role(inpainter) -> None:
    check_inpainter(inpainter)


def test_seed_and_prompt_matter(inpainter) -> None:
    first = inpainter.inpaint(picture(), box(), "red cube", 1)
    assert (inpainter.inpaint(picture(), box(), "red cube", 2) != first).any()
    assert (inpainter.inpaint(picture(), box(), "blue ball", 1) != first).any()


def test_the_model_does_not_see_what_is_masked(inpainter) -> None:
    pixels, other = picture(), picture()
    other[box()] = 255 - other[box()]
    one, two = (inpainter.inpaint(each, box(), "red cube", 1) for each in (pixels, other))
    # Only the edge may differ, where the picture is resized before it is masked.
    inner = box()
    inner[:] = False
    inner[14:21, 25:40] = True
    difference = np.abs(one[inner].astype(int) - two[inner].astype(int))
    assert difference.mean() < 0.1 * np.abs(pixels[inner].astype(int) - other[inner]).mean()


def test_a_wider_unet_sees_the_mask_and_what_is_left(tmp_path) -> None:
    inpainter = DiffusersInpainter.from_pretrained(
        tiny_pipeline(tmp_path, channels=13, latents=6), steps=1, guidance=2.0, device="cpu"
    )
    seen = []
    inpainter._pipeline.unet.conv_in.register_forward_pre_hook(lambda _, given: seen.append(given))
    inpainter.inpaint(picture(), box(), "red cube", 1)
    ((noisy,),) = seen
    assert noisy.shape == (2, 13, 16, 16)  # with the prompt and without
    cells = noisy[0, 6]
    assert set(cells.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(noisy[0, 7:], noisy[1, 7:])  # what is left, the same for both
    assert 0.1 < cells.mean() < 0.9


def test_without_guidance_the_empty_prompt_is_not_asked(folder, monkeypatch) -> None:
    inpainter = DiffusersInpainter.from_pretrained(folder, steps=2, guidance=1.0, device="cpu")
    sizes = []
    unet = inpainter._pipeline.unet
    forward = unet.forward
    monkeypatch.setattr(
        unet, "forward", lambda x, *a, **k: sizes.append(len(x)) or forward(x, *a, **k)
    )
    inpainter.inpaint(picture(), box(), "red cube", 1)
    assert sizes == [1, 1]


def test_prompts_are_encoded_as_the_pipeline_does_it(inpainter) -> None:
    pipeline = inpainter._pipeline
    texts = ["a red metal cube", "", "blue ball " * 20]
    with torch.no_grad():
        ours = encode_prompts(pipeline.text_encoder, pipeline.tokenizer, texts)
        theirs = pipeline.encode_prompt(texts, "cpu", 1, False)[0]
    assert torch.equal(ours, theirs)


def test_a_mask_of_another_size_or_kind_is_refused(inpainter) -> None:
    with pytest.raises(ValueError, match=r"bool \(40, 70\) is expected, not bool \(70, 40\)"):
        inpainter.inpaint(picture(), box().T, "red cube", 1)
    with pytest.raises(ValueError, match="not uint8"):
        inpainter.inpaint(picture(), box().astype(np.uint8), "red cube", 1)


def test_a_picture_that_the_safety_checker_withholds_is_an_error(folder, monkeypatch) -> None:
    inpainter = DiffusersInpainter.from_pretrained(folder, steps=1, device="cpu")
    black = SimpleNamespace(images=np.zeros((1, 32, 32, 3)), nsfw_content_detected=[True])
    monkeypatch.setattr(inpainter, "_pipeline", _answering(inpainter._pipeline, black))
    with pytest.raises(ModelError, match="safety checker .* withheld .*'red cube'"):
        inpainter.inpaint(picture(), box(), "red cube", 1)


def _answering(pipeline, output):
    class Answering:
        text_encoder, tokenizer = pipeline.text_encoder, pipeline.tokenizer

        def __call__(self, **_):
            return output

    return Answering()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, not 0"),
        ({"guidance": -1.0}, "must not be negative"),
        ({"quantize": "4bit"}, "takes no option quantize"),
        ({"device_map": "auto"}, "takes no option device_map"),
    ],
)
def test_wrong_options_are_named(folder, options, message) -> None:
    with pytest.raises(ProfileError, match=message):
        DiffusersInpainter.from_pretrained(folder, device="cpu", **options)


def test_a_checkpoint_that_is_not_for_inpainting_is_refused(tmp_path) -> None:
    with pytest.raises(ModelError, match="takes 4 channels, one for inpainting 9"):
        DiffusersInpainter.from_pretrained(tiny_pipeline(tmp_path, channels=4), device="cpu")


def test_pickled_weights_are_not_read(tmp_path) -> None:
    folder = tiny_pipeline(tmp_path)
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(ModelError, match="cannot be loaded"):
        DiffusersInpainter.from_pretrained(folder, device="cpu", local_only=True)


def test_code_that_a_checkpoint_brings_along_is_not_run(tmp_path) -> None:
    folder = tiny_pipeline(tmp_path)
    ran = tmp_path / "ran"
    (folder / "unet" / "own.py").write_text(
        f"open({str(ran)!r}, 'w')\nfrom diffusers import UNet2DConditionModel as Own\n"
    )
    index = json.loads((folder / "model_index.json").read_text())
    index["unet"] = ["own", "Own"]
    (folder / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="cannot be loaded"):
        DiffusersInpainter.from_pretrained(folder, device="cpu", local_only=True)
    assert not ran.exists()


def test_a_folder_without_a_pipeline_is_one_line(tmp_path) -> None:
    with pytest.raises(ModelError) as caught:
        DiffusersInpainter.from_pretrained(tmp_path, device="cpu", local_only=True)
    assert len(str(caught.value).splitlines()) == 1


def test_its_size_counts_every_network(inpainter, folder) -> None:
    on_disk = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    assert inpainter.memory_bytes == pytest.approx(on_disk, rel=0.2)


def test_no_bar_of_its_own_is_drawn(folder, capfd) -> None:
    inpainter = DiffusersInpainter.from_pretrained(folder, steps=2, device="cpu")
    assert "pipeline components" not in capfd.readouterr().err
    inpainter.inpaint(picture(), box(), "red cube " * 20, 1)
    assert capfd.readouterr() == ("", "")


def test_profiles_know_it_by_name(folder) -> None:
    options = {"steps": 1, "guidance": 1.0, "padding": 0.1, "safety_checker": False}
    check_options("inpainter", "diffusers", {"steps": 1})
    found = load_backend("inpainter", "diffusers", str(folder), {**options, "device": "cpu"})
    assert isinstance(found, DiffusersInpainter) and found.model_id == model_id(folder)


def test_a_pipeline_is_named_by_the_weights_of_its_networks(tmp_path) -> None:
    folder = tiny_pipeline(tmp_path)
    first = model_id(folder)
    weights = folder / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes() + b"0")
    assert model_id(folder) != first
