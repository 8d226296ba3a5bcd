"""One vision-language model in many roles, with weights here: loaded once, checked, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.models.vision import tiny_chat
from tests.strategies.bench import Purse
from viper.cli import cli
from viper.errors import ProfileError, ToolError
from viper.models.llm.messages import MAX_PIXELS, Picture, user
from viper.models.llm.protocol import Sampling
from viper.models.media import media_from
from viper.profiles import Profile, load_profile
from viper.profiles.inventory import inventory
from viper.sandbox import Ref

ROLES = ("vqa", "video", "text", "detector", "matcher")
PICTURE = np.array(tiny_chat.pictures(1)[0])


@pytest.fixture(autouse=True)
def _endless_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_chat.take_cut_replies(monkeypatch)


@pytest.fixture(scope="module", params=["llava", "qwen3_vl", "idefics3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat.FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The checkpoint of every load of a chat model or a text model during the test."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seen: list[str] = []
    for kind in (AutoModelForCausalLM, AutoModelForImageTextToText):
        original = kind.from_pretrained.__func__

        def counting(cls: Any, source: Any, *, original: Any = original, **options: Any) -> Any:
            seen.append(str(source))
            return original(cls, source, **options)

        monkeypatch.setattr(kind, "from_pretrained", classmethod(counting))
    return seen


def profile_of(tmp_path: Path, *lines: str) -> Profile:
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(['name = "mine"', *lines]))
    return load_profile(str(path), state=tmp_path)


def five_roles(folder: Path, named: str = "") -> list[str]:
    return [
        "[llm]",
        f'backend = "vlm"\nmodel = "{folder}"\noptions = {{ thinking_tokens = 0 }}\nsees = true',
        f'[planner]\nbackend = "vlm"\nmodel = "{folder}"',
        "[roles]",
        *[f'{role} = {{ backend = "vlm"{named} }}' for role in ROLES],
    ]


@pytest.mark.parametrize("named", [False, True])
def test_one_model_in_five_roles_and_two_writers_is_loaded_once(
    named: bool, folder: Path, tmp_path: Path, loads: list[str]
) -> None:
    lines = five_roles(folder, f', model = "{folder}"' if named else "")
    components = profile_of(tmp_path, *lines).components()
    assert components.sees == {"llm"}
    toolbox = components.toolbox
    for llm in components.models.values():
        asked = (user(Picture(PICTURE), "what is this ?"),)
        assert llm.generate([asked], Sampling(max_tokens=4))[0][0].prompt_tokens > 4
    purse = Purse()
    charged = purse.paid
    session = toolbox.session(media_from(PICTURE), payer=purse)
    image = Ref("image", ("image0", 24, 20))
    session.call("simple_query", (image, "what is this ?"), {}, None)
    session.call("caption_image", (image,), {}, None)
    assert session.call("best_text_match", (image, ["red", "blue"]), {}, None) in ("red", "blue")
    assert session.call("verify_property", (image, "cube", "red"), {}, None) in (True, False)
    session.call("llm_query", ("what is this ?",), {}, None)
    with pytest.raises(ToolError, match=f"{folder.name}@.* was asked for boxes and wrote"):
        session.call("find", (image, "ball"), {}, None)
    clip = toolbox.session(media_from(np.array(tiny_chat.clip(4))), payer=purse)
    video = Ref("video", ("video0", 4, 24, 20))
    clip.call("caption_video", (video,), {}, None)
    clip.call("locate_event", (video, "a ball"), {}, None)
    assert loads == [str(folder)]
    one = toolbox.models.memory_bytes()
    assert one == toolbox.models.get("vqa").memory_bytes
    # One answer, one caption, two and one pairs, one text, the boxes, one description, windows.
    windows = len(charged) - 8
    assert windows >= 1 and all(completion.prompt_tokens > 0 for completion in charged)


def test_weights_that_the_writer_uses_are_unloaded_when_it_is_idle(
    folder: Path, tmp_path: Path
) -> None:
    class Heavy:
        memory_bytes = 10_000_000

    components = profile_of(tmp_path, *five_roles(folder)).components()
    models = components.toolbox.models
    vqa = models.get("vqa")
    models.add("depth", Heavy)
    models.budget.max_bytes = 10_000_000
    assert components.llm.model_id and components.llm.loaded
    with models.using("vqa"):
        models.get("depth")
        assert models.get("vqa") is vqa and components.llm.loaded
    models.add("detector", Heavy)
    models.get("detector")
    assert set(models.loaded()) == {"detector"} and not components.llm.loaded


def test_equal_tables_of_text_models_are_loaded_once(tmp_path: Path, loads: list[str]) -> None:
    equal = 'backend = "transformers"\nmodel = "embedded:writer_small"'
    profile = profile_of(
        tmp_path,
        f"[llm]\n{equal}",
        f'[planner]\n{equal}\ncache = true\nstyle = "full"',
        f'[critic]\n{equal}\noptions = {{ template = "plain" }}',
    )
    components = profile.components()
    for llm in components.models.values():
        assert llm.count_tokens("red") > 0
    assert len(loads) == 2
    assert [state.shares for state in inventory(profile)] == [None, "llm", None]


def test_the_table_vlm_is_asked_before_the_writer(folder: Path, tmp_path: Path) -> None:
    lines = [
        '[llm]\nbackend = "transformers"\nmodel = "embedded:writer"',
        f'[vlm]\nbackend = "vlm"\nmodel = "{folder}"\noptions = {{ thinking_tokens = 3 }}',
        '[roles]\nvqa = { backend = "vlm", options = { instruction = "red ?", '
        "chat_template_kwargs = { enable_thinking = true } } }",
        f'video = {{ backend = "vlm", model = "{folder}", '
        "options = { thinking_tokens = 2, max_pixels = 5000 } }",
        'text = { backend = "vlm" }',
    ]
    profile = profile_of(tmp_path, *lines)
    assert [state.shares for state in inventory(profile)][2:] == ["vlm", "vlm", "vlm"]
    components = profile.components()
    models = components.toolbox.models
    assert models.get("vqa")._vlm._thinking_tokens == 3
    assert models.get("vqa")._vlm._template._kwargs == {"enable_thinking": True}
    assert models.get("video")._vlm._thinking_tokens == 2
    assert models.get("video")._vlm.max_pixels == 5000
    assert models.get("vqa")._vlm.max_pixels == MAX_PIXELS
    assert models.get("vqa")._vlm._model is models.get("video")._vlm._model
    assert models.get("text").model_id == components.models["vlm"].model_id
    assert models.get("vqa")._instruction == "red ?"


@pytest.mark.parametrize(
    ("llm", "roles", "problem"),
    [
        ('backend = "transformers"\nsees = true', "", "llm: sees = true, .* takes no pictures"),
        (
            'backend = "openai"\nsees = true\noptions = { api = "completions", '
            'base_url = "http://localhost:1/v1" }',
            "",
            "llm: sees = true, but its backend 'openai' takes no pictures",
        ),
        (
            'backend = "transformers"',
            'vqa = { backend = "vlm" }',
            r"vqa: it asks \[llm\], whose backend 'transformers' takes no pictures",
        ),
        (
            'backend = "transformers"',
            'vqa = { backend = "chat" }',
            r"vqa: it asks \[llm\], whose backend 'transformers' takes no pictures",
        ),
    ],
)
def test_models_without_eyes_are_found_by_the_check(
    llm: str, roles: str, problem: str, tmp_path: Path
) -> None:
    profile = profile_of(tmp_path, f'[llm]\nmodel = "embedded:writer"\n{llm}', f"[roles]\n{roles}")
    with pytest.raises(ProfileError, match=problem):
        profile.components()
    checked = CliRunner().invoke(
        cli, ["setup", "profile", "check", str(profile.document.path)], standalone_mode=False
    )
    assert checked.stdout.count("problem:") == 1 and checked.stdout.endswith("cannot run here\n")


def test_a_missing_key_is_found_by_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for key, problem in (("", "problem: the environment variable OPENAI_API_KEY"), ("sk-1", "")):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        checked = CliRunner().invoke(
            cli, ["setup", "profile", "check", "endpoint"], standalone_mode=False
        )
        assert problem in checked.stdout
        assert ("can run here" in checked.stdout.splitlines()) is not bool(problem)


def test_sees_is_no_key_of_a_tool(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"roles\.vqa\.sees: unknown key"):
        profile_of(
            tmp_path,
            '[llm]\nbackend = "vlm"\nmodel = "x/y"',
            '[roles]\nvqa = { backend = "vlm", sees = true }',
        )


def test_a_wrong_option_is_said_before_anything_is_loaded(tmp_path: Path, loads: list[str]) -> None:
    lines = five_roles(tmp_path)
    lines[-1] = 'matcher = { backend = "vlm", options = { questions = "x" } }'
    with pytest.raises(ProfileError, match="matcher: the backend 'vlm' .* takes: question"):
        profile_of(tmp_path, *lines).components()
    assert not loads


def test_show_prints_who_sees_and_who_shares(folder: Path, tmp_path: Path) -> None:
    path = str(profile_of(tmp_path, *five_roles(folder)).document.path)
    shown = CliRunner().invoke(cli, ["setup", "profile", "show", path], standalone_mode=False)
    lines = shown.stdout.splitlines()
    assert "sees=True" in next(line for line in lines if line.startswith("llm"))
    assert sum("shared with llm" in line for line in lines) == 1 + len(ROLES)
