"""Events in a clip by X-CLIP, on a tiny checkpoint."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_chat

from tests.models.vision.swapping import answer_with
from viper.errors import ModelError, ProfileError, ToolError
from viper.models.vision.roles import EventWindow
from viper.models.vision.video_xclip import NEUTRAL, WindowFeatures, XClipVideo
from viper.testing.conformance import check_video

FRAMES = 4
DESCRIPTIONS = ["the ball rolls", "a cube falls", "a red ball"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from tokenizers import processors
    from transformers import (
        CLIPImageProcessor,
        XCLIPConfig,
        XCLIPModel,
        XCLIPTextConfig,
        XCLIPVisionConfig,
    )

    torch.manual_seed(0)
    tokenizer = tiny_chat.word_tokenizer()
    begin, end = (tiny_chat.VOCABULARY[mark] for mark in ("<s>", "</s>"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", begin), ("</s>", end)]
    )
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "initializer_range": 0.5,
    }
    text = XCLIPTextConfig(
        **sizes,
        vocab_size=len(tiny_chat.VOCABULARY),
        max_position_embeddings=12,
        bos_token_id=begin,
        eos_token_id=end,
        pad_token_id=tiny_chat.VOCABULARY["<pad>"],
    )
    vision = XCLIPVisionConfig(
        **sizes,
        image_size=16,
        patch_size=8,
        num_frames=FRAMES,
        mit_hidden_size=16,
        mit_intermediate_size=32,
        mit_num_hidden_layers=1,
        mit_num_attention_heads=2,
    )
    config = XCLIPConfig(
        text_config=text,
        vision_config=vision,
        projection_dim=16,
        prompt_num_attention_heads=2,
        prompt_alpha=0.5,
        logit_scale_init_value=1.5,
    )
    model = XCLIPModel(config)
    with torch.no_grad():  # those that start at zero or one would leave parts unused
        for name, weight in model.named_parameters():
            if name.startswith(("mit.position", "prompts_generator", "prompts_visual")):
                weight.normal_(0.0, 0.5)
    path = tmp_path_factory.mktemp("xclip")
    model.save_pretrained(path)
    side = {"height": 16, "width": 16}
    CLIPImageProcessor(size={"shortest_edge": 16}, crop_size=side).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def video(folder: Path) -> XClipVideo:
    return XClipVideo.from_pretrained(folder, descriptions=DESCRIPTIONS, batch_size=2)


def whole_model(video: XClipVideo, frames: Any, texts: list[str]) -> Any:
    """float [M], softmax of the complete model's similarities of one window and the texts."""
    import torch

    pixels = video._processor(images=list(frames), return_tensors="pt")["pixel_values"]
    tokens = video._tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = video._model(
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
            pixel_values=pixels[None],
        )
    return output.logits_per_video[0].softmax(-1).numpy()


def test_it_keeps_the_rules_of_its_role(video: XClipVideo) -> None:
    check_video(video)


def test_each_window_scores_as_the_complete_model_says(video: XClipVideo) -> None:
    clip = np.array(tiny_chat.clip(9))
    encoding = video.encode(clip)
    assert encoding.windows == ((0, 4), (2, 6), (4, 8), (5, 9))
    texts = ["the ball rolls", *NEUTRAL]
    found = video._chances(encoding, texts)
    for (start, end), row in zip(encoding.windows, found, strict=True):
        assert row == pytest.approx(whole_model(video, clip[start:end], texts), abs=1e-4)
    assert np.ptp(found[:, 0]) > 1e-3 and np.ptp(found[0]) > 1e-3
    best = max(zip(encoding.windows, found[:, 0], strict=True), key=lambda pair: pair[1])
    first = video.locate(encoding, "the ball rolls")[0]
    assert first.start <= best[0][0] and best[0][1] <= first.end
    assert first.score == pytest.approx(float(best[1]), rel=1e-4)


def test_a_short_clip_is_one_window_whose_frames_repeat(video: XClipVideo) -> None:
    clip = np.array(tiny_chat.clip(2))
    encoding = video.encode(clip)
    assert encoding.windows == ((0, 2),)
    expected = whole_model(video, clip[[0, 0, 1, 1]], ["a ball", *NEUTRAL])
    assert video.locate(encoding, "a ball")[0] == EventWindow(
        0, 2, pytest.approx(float(expected[0]), rel=1e-3)
    )


def test_a_processor_that_adds_an_axis_for_the_clip_serves_as_well(video: XClipVideo) -> None:
    class Framed:
        def __call__(self, **given: Any) -> Any:
            inner = video._processor(**given)
            return {"pixel_values": inner["pixel_values"][None]}

    other = XClipVideo(video._model, Framed(), video._tokenizer, "framed")
    clip = tiny_chat.clip(9)
    assert other.encode(clip).videos.tolist() == video.encode(clip).videos.tolist()


def test_a_text_that_is_too_long_is_cut(video: XClipVideo) -> None:
    encoding = video.encode(tiny_chat.clip(4))
    assert video.locate(encoding, "the red ball rolls " * 9)


class Scored(XClipVideo):
    """Scores windows by a table: one row a window, one column a description or neutral text."""

    def __init__(self, rows: list[list[float]], **options: Any) -> None:
        self.model_id = "scored"
        self._neutral, self._descriptions = ["still"], options.get("descriptions", [])
        self._rows = np.array(rows, np.float32)

    def _chances(self, encoding: WindowFeatures, texts: Any) -> Any:
        assert self._rows.shape == (len(encoding.windows), len(texts))
        return self._rows


def windows_of(*windows: tuple[int, int]) -> WindowFeatures:
    return WindowFeatures(windows[-1][1], windows, None, None)


def test_windows_of_one_event_are_put_together() -> None:
    video = Scored([[0.25, 0.75], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    encoding = windows_of((0, 4), (2, 6), (4, 8), (6, 10))
    assert video.locate(encoding, "x") == [EventWindow(2, 8, 0.75), EventWindow(0, 4, 0.25)]


def test_descriptions_are_those_that_fit_in_the_order_of_time() -> None:
    rows = [[0.1, 0.7, 0.2], [0.6, 0.2, 0.2], [0.1, 0.2, 0.7], [0.0, 0.9, 0.1]]
    video = Scored(rows, descriptions=["a rolls.", "b falls"])
    encoding = windows_of((0, 4), (2, 6), (4, 8), (6, 10))
    assert video.describe(encoding, 0, 10) == "b falls. a rolls."
    assert video.describe(encoding, 3, 10, "what rolls?") == "a rolls. b falls."
    assert video.describe(encoding, 5, 7) == "nothing happens."
    assert video.describe(encoding, 9, 10) == "b falls."
    assert video.describe(encoding, 5, 5) == video.describe(encoding, 11, 12) == ""


def test_without_descriptions_it_says_who_could_write_them(folder: Path) -> None:
    video = XClipVideo.from_pretrained(folder)
    encoding = video.encode(tiny_chat.clip(4))
    with pytest.raises(ToolError, match="cannot write: list sentences in the option descriptions"):
        video.describe(encoding, 0, 4)
    assert video.describe(encoding, 4, 4) == ""


def test_real_descriptions_are_chosen_from_the_list(video: XClipVideo) -> None:
    encoding = video.encode(tiny_chat.clip(12))
    said = video.describe(encoding, 0, 12)
    allowed = {*DESCRIPTIONS, "nothing happens"}
    assert {part.strip() for part in said.split(".") if part.strip()} <= allowed


def test_an_empty_clip_has_no_events(video: XClipVideo) -> None:
    encoding = video.encode(np.zeros((0, 20, 24, 3), np.uint8))
    assert video.locate(encoding, "a ball") == [] and video.describe(encoding, 0, 4) == ""


def test_the_video_tower_runs_once_a_window(folder: Path) -> None:
    video = XClipVideo.from_pretrained(folder, descriptions=DESCRIPTIONS, batch_size=2)
    frames = []
    video._model.vision_model.register_forward_pre_hook(
        lambda _, args, inputs: frames.append(len(inputs["pixel_values"])), with_kwargs=True
    )
    encoding = video.encode(tiny_chat.clip(8))
    for event in ("a ball", "a cube"):
        video.locate(encoding, event)
    video.describe(encoding, 0, 8)
    assert frames == [2 * FRAMES, FRAMES]


def test_options_are_lists_of_texts(folder: Path) -> None:
    with pytest.raises(ProfileError, match="the option neutral has 0 texts"):
        XClipVideo.from_pretrained(folder, neutral=[])
    with pytest.raises(ProfileError, match="the option descriptions is 'a ball rolls'"):
        XClipVideo.from_pretrained(folder, descriptions="a ball rolls")


def test_it_says_what_it_is(video: XClipVideo, folder: Path) -> None:
    assert video.model_id.startswith(folder.name + "@")
    assert video.memory_bytes > 0


def test_a_folder_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as XCLIPModel"):
        XClipVideo.from_pretrained(tmp_path)


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    line = f'{{ backend = "xclip", model = "{folder}" }}'
    assert answer_with("video", line, tmp_path) == "True"
