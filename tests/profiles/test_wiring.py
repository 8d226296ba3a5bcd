"""From profile to parts: what is shared, what is refused, what a file may bring along."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.models.vision.tiny_diffusion import tiny_pipeline
from viper.errors import ProfileError, UnknownNameError
from viper.models.llm.scripted import ScriptedLLM
from viper.models.llm.wrapped import DeferredLLM
from viper.profiles import known_profiles, load_profile
from viper.profiles.inventory import inventory, readiness
from viper.profiles.wiring import Profile
from viper.strategies.demonstration_pool import DemonstrationPool

PROFILE = """
name = "mine"
description = "for a test"

[llm]
backend = "transformers"
model = "embedded:writer"
options = {{ template = "plain" }}

[load]
device = "cpu"
local_only = true

[roles]
{roles}

[run]
prompt_style = "compact"
"""


def written(folder: Path, roles: str) -> Profile:
    path = folder / "mine.toml"
    path.write_text(PROFILE.format(roles=roles), encoding="utf-8")
    return load_profile(str(path))


@pytest.mark.parametrize("name", sorted(known_profiles()))
def test_every_shipped_profile_is_well_formed(name: str) -> None:
    profile = load_profile(name)
    assert profile.document.description and profile.name == name
    problems = [state.problem for state in inventory(profile) if state.problem]
    lacking = ("is not installed", "viper setup model")
    assert all(any(words in problem for words in lacking) for problem in problems)
    assert profile.document.tools.sensitivities.keys() >= {"detector.threshold"}


def test_the_shipped_profile_runs_here_and_the_others_say_what_they_lack() -> None:
    assert readiness(load_profile("embedded")) == ("runs here", None)
    state, why = readiness(load_profile("paper-clova"))
    assert state == "downloads first" and why is not None and "OpenAI" not in why
    assert "Salesforce/blip-vqa-base" in why


def test_a_pipeline_of_several_networks_is_counted_whole(tmp_path: Path) -> None:
    folder = tiny_pipeline(tmp_path / "painter")
    profile = written(tmp_path, 'inpainter = { backend = "diffusers", model = "./painter" }')
    (state,) = [each for each in inventory(profile) if each.role == "inpainter"]
    assert (state.place, state.problem) == ("folder", None)
    sizes = [path.stat().st_size for path in folder.rglob("*.safetensors")]
    assert len(sizes) == 3 and state.size_bytes == sum(sizes)


def test_wiring_loads_nothing() -> None:
    components = load_profile("embedded").components()
    assert isinstance(components.llm, DeferredLLM) and not components.llm.loaded
    assert not components.toolbox.models.loaded()
    components.close()


def test_a_bound_on_memory_reaches_the_models(tmp_path: Path) -> None:
    profile = written(tmp_path, 'depth = { backend = "depth_anything", model = "embedded:depth" }')
    assert profile.components().toolbox.models.budget.max_bytes is None
    bounded = load_profile(str(tmp_path / "mine.toml"), max_memory_gb=0.5)
    assert bounded.components().toolbox.models.budget.max_bytes == 2**29


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (
            'text = { backend = "llm", options = { pick = "best" } }',
            "text: the backend 'llm' does not take all of the options pick; of its own it takes: ",
        ),
        (
            'video = { backend = "frames", options = { fps = 2 } }',
            "video: the backend 'frames' does not take all of the options fps",
        ),
        (
            'depth = { backend = "depth_anything", model = "embedded:depth", options = { x = 1 } }',
            "depth: the backend 'depth_anything' does not take .* options .*x; .*batch_size",
        ),
        (
            'depth = { backend = "no_such_module:Depth", model = "x" }',
            "depth: the backend 'no_such_module:Depth' cannot be imported",
        ),
        ('depth = { backend = "depth_anything" }', "depth: the backend .* needs a model"),
    ],
)
def test_a_wrong_option_is_one_clear_line(roles: str, message: str, tmp_path: Path) -> None:
    role = roles.partition(" ")[0]
    with pytest.raises(ProfileError, match=message):
        written(tmp_path, roles).components().toolbox.models.get(role)


def test_load_options_are_checked_with_the_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = PROFILE.format(roles="").replace('device = "cpu"', 'dtype = "float64"')
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        ProfileError, match="mine.toml:.*dtype 'float64' is not known; known: auto, float32"
    ):
        load_profile(str(path))


def test_thresholds_of_a_call_replace_start_and_fixed_value() -> None:
    profile = load_profile("paper-programmers")
    name = "detector.threshold"
    tools = profile.document.tools
    assert tools.start_thresholds()[name] == 0.15
    assert tools.start_thresholds(self_tune=False)[name] == 0.10
    changed = profile.with_thresholds({name: 0.02}).document.tools
    found = changed.sensitivities[name]
    assert (found.start, found.fixed, found.floor, found.step) == (0.02, 0.02, 0.02, 0.05)
    assert profile.document.tools is tools
    with pytest.raises(UnknownNameError, match="unknown threshold 'x'; known: detector.thresh"):
        profile.with_thresholds({"x": 0.5})


def test_another_bank_is_meant_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = written(tmp_path, "")
    monkeypatch.chdir(tmp_path)
    changed = profile.with_bank("mine.jsonl")
    assert changed.document.bank == str(tmp_path / "mine.jsonl")
    assert changed.without_examples().document.bank is None
    assert profile.with_bank("embedded:x").document.bank == "embedded:x"


def test_an_api_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown API 'abstrct'"):
        load_profile("embedded", api="abstrct").components()


def test_a_profile_s_routines_are_looked_for_beside_it(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(
        "from viper import routine\n\n\n@routine\ndef twice(x: int) -> int:\n"
        '    """Double."""\n    return 2 * x\n'
    )
    text = PROFILE.format(roles="") + 'api = "abstract+more.py"\n'
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    components = load_profile(str(tmp_path / "mine.toml")).components()
    listed = components.library.api_set("abstract+more.py").entries("question")
    assert listed[-1].name == "twice"
    components.close()


def test_a_model_path_is_meant_from_the_profile_s_folder(tmp_path: Path) -> None:
    profile = written(tmp_path, 'depth = { backend = "depth_anything", model = "./depth" }')
    (state,) = [state for state in inventory(profile) if state.role == "depth"]
    assert state.problem is not None and str(tmp_path / "depth") in state.problem
    (tmp_path / "depth").mkdir()
    (tmp_path / "depth" / "config.json").write_text("{}")
    (state,) = [state for state in inventory(profile) if state.role == "depth"]
    assert (state.place, state.problem) == ("folder", None)


def test_a_planner_is_a_language_model_of_its_own(tmp_path: Path) -> None:
    profile = written(tmp_path, "")
    assert "planner" not in profile.components().models
    path = tmp_path / "mine.toml"
    table = '[planner]\nbackend = "transformers"\nmodel = "embedded:writer_small"\ncache = true\n'
    path.write_text(path.read_text() + table)
    planned = load_profile(str(path), state=tmp_path / "state")
    assert [role for role, _ in planned.choices()] == ["llm", "planner"]
    assert [state.place for state in inventory(planned)] == ["folder", "folder"]
    components = planned.components()
    assert isinstance(planner := components.models["planner"], DeferredLLM) and not planner.loaded
    components.close()
    path.write_text(path.read_text().replace(table, '[planner]\nbackend = "no"\n'))
    with pytest.raises(UnknownNameError, match="unknown planner backend 'no'; known: .*openai"):
        load_profile(str(path)).components()


def test_helpers_say_in_which_style_they_are_asked(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    tables = """
[planner]
backend = "transformers"
model = "embedded:writer"

[critic]
backend = "transformers"
model = "embedded:writer"
style = "compact"
options = { adapter = "./critic" }
"""
    path.write_text(PROFILE.format(roles="") + tables)
    profile = load_profile(str(path))
    assert [role for role, _ in profile.choices()] == ["llm", "planner", "critic"]
    critic = dict(profile.choices())["critic"]
    assert profile.options("critic", critic)["adapter"] == str((tmp_path / "critic").resolve())
    components = profile.components()
    assert isinstance(critic := components.models["critic"], DeferredLLM) and not critic.loaded
    assert (components.styles["planner"], components.styles["critic"]) == ("chat", "compact")
    components.close()
    for wrong, message in (
        ('style = "terse"', "critic.style: input should be .*'compact'.*, got 'terse'"),
        ('style = "compact"\nrole = "x"', "critic.role: unknown key"),
    ):
        text = PROFILE.format(roles="") + tables.replace('style = "compact"', wrong)
        path.write_text(text)
        with pytest.raises(ProfileError, match=message):
            load_profile(str(path))
    path.write_text(path.read_text().replace('role = "x"', "").replace("./critic", "embedded:no"))
    problems = load_profile(str(path)).problems()
    assert any("embedded:no: not shipped with this package" in line for line in problems)


def test_only_helpers_have_a_style(tmp_path: Path) -> None:
    text = PROFILE.format(roles="").replace("model =", 'style = "chat"\nmodel =')
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ProfileError, match="llm.style: unknown key"):
        load_profile(str(tmp_path / "mine.toml"))


def test_pools_and_caches_live_in_the_state_that_was_chosen(tmp_path: Path) -> None:
    own = tmp_path / "state" / "profiles"
    own.mkdir(parents=True)
    (own / "mine.toml").write_text(PROFILE.format(roles=""))
    components = load_profile("mine", state=tmp_path / "state").components()
    assert isinstance(components.demonstrations, DemonstrationPool)
    assert components.demonstrations.store.folder == tmp_path / "state" / "demonstrations"
    components.close()
    with pytest.raises(UnknownNameError):
        load_profile("mine", state=tmp_path / "elsewhere")


def test_boxes_and_depths_are_computed_in_float32_unless_their_own_options_say_otherwise(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.toml").write_text("""
extends = "embedded"
[load]
dtype = "bfloat16"
quantize = "4bit"
[roles]
detector = { backend = "owlv2", model = "embedded:detector" }
depth = { backend = "depth_anything", model = "embedded:depth", options = { dtype = "float16" } }
""")
    profile = load_profile(str(tmp_path / "mine.toml"))
    options = {role: profile.options(role, choice) for role, choice in profile.choices()}
    assert options["detector"]["dtype"] == "float32" and "quantize" not in options["detector"]
    assert options["depth"]["dtype"] == "float16"
    assert (options["vqa"]["dtype"], options["vqa"]["quantize"]) == ("bfloat16", "4bit")


def test_the_size_of_weights_is_known_before_they_load() -> None:
    profile = load_profile("embedded")
    models = profile.components().toolbox.models
    for role, choice in profile.choices():
        if role in ("detector", "matcher", "depth", "vqa", "segmenter", "inpainter"):
            loaded = models.get(role).memory_bytes
            assert profile.weights_bytes(role, choice) == pytest.approx(loaded, rel=0.25), role


def test_an_engine_that_takes_a_share_of_the_device_starts_before_other_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    class Engine(ScriptedLLM):
        concurrent = True

        def __init__(self, path: str) -> None:
            super().__init__([])
            order.append("engine")

    monkeypatch.setattr("viper.models.llm.vllm_llm.VllmLLM", Engine)
    monkeypatch.setattr("viper.profiles.backends.need_packages", lambda *_: None)
    (tmp_path / "mine.toml").write_text(
        'extends = "embedded"\nplanner = false\nseeker = false\nexplorer = false\n'
        '[llm]\nbackend = "vllm"\nmodel = "some/model"\n'
    )
    models = load_profile(str(tmp_path / "mine.toml")).components().toolbox.models
    models.get("depth")
    assert order == ["engine"]


SMALL_MATCHER = '{ backend = "open_clip", model = "embedded:matcher"'


def test_loading_options_reach_the_backends_that_honour_them(tmp_path: Path) -> None:
    profile = written(tmp_path, f"matcher = {SMALL_MATCHER} }}")
    load = {"quantize": "4bit", "device_map": "auto", "dtype": "float32", "local_only": True}
    profile = replace(profile, document=replace(profile.document, load=load))
    choices = dict(profile.choices())
    assert profile.options("matcher", choices["matcher"]) == {
        "dtype": "float32",
        "local_only": True,
    }
    assert profile.options("llm", choices["llm"]).items() >= load.items()
    assert profile.problems() == []


@pytest.mark.parametrize("option", ['quantize = "4bit"', 'device_map = "auto"'])
def test_loading_option_of_a_role_that_its_backend_does_not_honour(
    tmp_path: Path, option: str
) -> None:
    profile = written(tmp_path, f"matcher = {SMALL_MATCHER}, options = {{ {option} }} }}")
    (problem,) = profile.problems()
    assert problem.startswith("OpenClipMatcher takes no option " + option.split()[0])
    (state,) = (state for state in inventory(profile) if state.role == "matcher")
    assert state.problem == problem
