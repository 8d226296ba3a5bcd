"""Roles of one profile that name the same chat checkpoint stand on one loaded model."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import viper
from tests.models.vision import tiny_chat
from tests.profiles.test_wiring import written
from viper.cli import cli
from viper.errors import ProfileError
from viper.models.vision.chat_vlm import ChatVLM
from viper.profiles.inventory import inventory, readiness
from viper.tools.models import ModelSet

TABLE = str(Path(viper.__file__).parent / "embedded" / "media" / "table.png")


@pytest.fixture(autouse=True)
def _endless_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_chat.take_cut_replies(monkeypatch)


@pytest.fixture(scope="module", params=["llava", "qwen2_vl"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat.FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of every chat model loaded during the test."""
    seen: list[dict[str, Any]] = []
    original = ChatVLM.from_pretrained.__func__  # type: ignore[attr-defined]

    def counting(cls: type[ChatVLM], source: Any, **options: Any) -> ChatVLM:
        seen.append(options)
        loaded: ChatVLM = original(cls, source, **options)
        return loaded

    monkeypatch.setattr(ChatVLM, "from_pretrained", classmethod(counting))
    return seen


def roles(folder: Path, vqa: str = "", video: str = "frames = 2") -> str:
    """Both roles by the checkpoint in the folder, each with options of its own."""
    return "\n".join(
        f'{role} = {{ backend = "chat", model = "{folder}", options = {{ {options} }} }}'
        for role, options in (("vqa", vqa), ("video", video))
    )


def models_of(tmp_path: Path, lines: str) -> ModelSet:
    return written(tmp_path, lines).components().toolbox.models


@pytest.mark.parametrize("order", [("vqa", "video"), ("video", "vqa")])
def test_one_model_answers_for_both_as_two_would(
    order: tuple[str, str], folder: Path, tmp_path: Path, loads: list[dict[str, Any]]
) -> None:
    models = models_of(tmp_path, roles(folder))
    for role in order:
        models.get(role)
    assert len(loads) == 1
    vqa, video = models.get("vqa"), models.get("video")
    assert vqa._vlm._model is video._vlm._model
    assert (vqa._vlm._batch_size, video._vlm._batch_size) == (8, 2)
    assert models.memory_bytes() == vqa.memory_bytes == video.memory_bytes > 0
    alone_vqa = type(vqa)(ChatVLM.from_pretrained(folder))
    alone_video = type(video)(ChatVLM.from_pretrained(folder), frames=2)
    shown, clip = tiny_chat.pictures(3), tiny_chat.clip(6)
    questions = ["what is this ?", "a ball ?", "is this red ?"]
    assert vqa.answer(shown, questions) == alone_vqa.answer(shown, questions)
    assert video.locate(video.encode(clip), "a ball") == alone_video.locate(
        alone_video.encode(clip), "a ball"
    )


def test_a_bound_counts_it_once_and_lets_go_of_all_of_it(
    folder: Path, tmp_path: Path, loads: list[dict[str, Any]]
) -> None:
    class Heavy:
        memory_bytes = 10_000

    models = models_of(tmp_path, roles(folder))
    models.add("depth", Heavy)
    models.load_all()
    one = models.get("vqa").memory_bytes
    models.budget.max_bytes = one + 10_000
    models.add("detector", Heavy)
    models.get("video")
    models.get("detector")  # of both in memory, depth was used longest ago
    assert set(models.loaded()) == {"vqa", "video", "detector"} and len(loads) == 1
    weights = weakref.ref(models.get("vqa")._vlm._model)
    models.get("detector")
    models.budget.max_bytes = 20_000
    models.get("depth")
    gc.collect()
    assert set(models.loaded()) == {"depth", "detector"} and weights() is None
    models.get("vqa")
    assert len(loads) == 2


@pytest.mark.parametrize(
    ("vqa", "video", "count"),
    [
        ("", 'dtype = "bfloat16"', 2),
        ('revision = "main"', "", 2),
        ('dtype = "auto", local_only = true', "", 1),
        ("batch_size = 1", "batch_size = 3", 1),
    ],
)
def test_only_equal_ways_of_loading_share(
    vqa: str, video: str, count: int, folder: Path, tmp_path: Path, loads: list[dict[str, Any]]
) -> None:
    models = models_of(tmp_path, roles(folder, vqa, video))
    models.load_all()
    assert len(loads) == count
    assert models.memory_bytes() == sum(
        {id(b._vlm._model): b.memory_bytes for b in models.loaded().values()}.values()
    )


def test_quantised_and_whole_weights_are_two_models(tmp_path: Path) -> None:
    profile = written(tmp_path, roles(tmp_path, 'quantize = "4bit"', ""))
    one, other = (profile.shared_model(*each) for each in list(profile.choices())[1:])
    assert one is not None and other is not None and one != other


def test_a_wrong_option_is_said_before_anything_is_loaded(
    tmp_path: Path, loads: list[dict[str, Any]]
) -> None:
    wrong = {"vqa": ("frames = 3", ""), "video": ("", "instructions = 2")}
    for role, taken in (("vqa", "instruction, caption_instruction"), ("video", "frames, kept_")):
        with pytest.raises(ProfileError, match=f"{role}: the backend 'chat' .* takes: {taken}"):
            models_of(tmp_path, roles(tmp_path, *wrong[role]))
    assert not loads
    profile = written(tmp_path, roles(tmp_path, 'dtype = "float64"', ""))
    with pytest.raises(ProfileError, match="dtype 'float64' is not known"):
        profile.components()
    state, why = readiness(profile)
    assert state == "cannot run" and "dtype 'float64' is not known" in str(why)


def test_the_inventory_counts_it_once_and_says_who_shares_it(folder: Path, tmp_path: Path) -> None:
    profile = written(tmp_path, roles(folder))
    vqa, video = list(inventory(profile))[1:]
    assert vqa.size_bytes and (vqa.place, vqa.shares) == ("folder", None)
    assert (video.place, video.size_bytes, video.shares) == ("shared", None, "vqa")
    apart = written(tmp_path, roles(folder, 'dtype = "bfloat16"'))
    assert [state.size_bytes for state in inventory(apart)][1:] == [vqa.size_bytes] * 2


def test_the_commands_say_so(folder: Path, tmp_path: Path) -> None:
    path = written(tmp_path, roles(folder)).document.path
    checked = CliRunner().invoke(
        cli, ["setup", "profile", "check", str(path)], standalone_mode=False
    )
    (line,) = [line for line in checked.stdout.splitlines() if line.startswith("video")]
    assert "shared with vqa" in line and "shared with" not in checked.stdout.replace(line, "")
    shown = CliRunner().invoke(
        cli, ["setup", "profile", "show", str(path), "--json"], standalone_mode=False
    )
    sizes = [model["size_bytes"] or 0 for model in json.loads(shown.stdout)["models"]]
    dry = CliRunner().invoke(
        cli, ["run", TABLE, "x", "--dry-run", "--profile", str(path)], standalone_mode=False
    )
    assert f"weights on this disk: {sum(sizes) / 1e6:,.0f} MB" in dry.stdout
    assert "shared with vqa" in dry.stdout


def test_a_program_uses_both_roles(folder: Path, tmp_path: Path) -> None:
    from viper.reasoner import Reasoner

    code = (
        "def execute_command(video, question, possible_answers):\n"
        "    segment = VideoSegment(video)\n"
        "    found = segment.get_video_segment_of_event('a ball')\n"
        "    frame = found.frame_from_index(0)\n"
        "    return 'answer: ' + frame.simple_query('what is this?')\n"
    )
    with Reasoner(written(tmp_path, roles(folder)), preload=False) as reasoner:
        clip = np.array(tiny_chat.clip(8))
        result = reasoner.execute(code, clip, task="question")
        assert result.answer is not None, result.failure
        assert set(reasoner.components.toolbox.models.loaded()) == {"vqa", "video"}
