"""A profile that extends another one states the differences alone."""

from pathlib import Path

import pytest

from viper.errors import ProfileError
from viper.profiles.document import Hardware
from viper.profiles.files import known_profiles, read_profile

BASE = """
description = "the base"
facts = "it knows cups"
[llm]
backend = "transformers"
model = "./writer"
options = { template = "plain", kept_prompts = 2 }
[planner]
backend = "transformers"
model = "some/planner"
[load]
device = "cpu"
dtype = "float32"
[roles]
detector = { backend = "owlv2", model = "../detector" }
depth = { backend = "depth_anything", model = "some/depth" }
[sensitivities]
"detector.threshold" = { start = 0.3, step = 0.1, floor = 0.1 }
[run]
trials = 5
feedback = true
bank = "mine.jsonl"
[hardware]
ram_gib = 16
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "base.toml").write_text(BASE)
    return folder


def child(tmp_path: Path, text: str) -> str:
    path = tmp_path / "child.toml"
    path.write_text(text)
    return str(path)


def test_what_the_child_does_not_say_is_the_parents(base: Path, tmp_path: Path) -> None:
    document = read_profile(child(tmp_path, 'extends = "shared/base.toml"'))
    assert (document.name, document.description) == ("child", "")
    assert document.facts == "it knows cups" and document.run.trials == 5
    assert document.hardware == Hardware(ram_gib=16)


def test_paths_of_the_parent_stay_relative_to_the_parent(base: Path, tmp_path: Path) -> None:
    document = read_profile(child(tmp_path, 'extends = "shared/base.toml"'))
    assert document.llm.model == str(base / "writer")
    assert document.roles["detector"].model == str(tmp_path / "detector")
    assert document.bank == str(base / "mine.jsonl")


def test_tables_merge_but_a_model_replaces_the_whole_other_one(base: Path, tmp_path: Path) -> None:
    document = read_profile(child(tmp_path, """
extends = "shared/base.toml"
[llm]
backend = "openai"
model = "gpt"
[load]
dtype = "bfloat16"
[roles]
depth = { backend = "dpt", model = "other/depth" }
[sensitivities]
"detector.threshold" = { floor = 0.05 }
"matcher.threshold" = { start = 0.5, step = 0.1, floor = 0.2 }
[run]
feedback = false
"""))  # fmt: skip
    assert document.llm.options == {} and document.llm.backend == "openai"
    assert document.load == {"device": "cpu", "dtype": "bfloat16"}
    assert set(document.roles) == {"detector", "depth"}
    assert document.roles["depth"].model == "other/depth"
    thresholds = document.tools.sensitivities
    assert (thresholds["detector.threshold"].start, thresholds["detector.threshold"].floor) == (
        0.3, 0.05,
    )  # fmt: skip
    assert "matcher.threshold" in thresholds and not document.run.feedback


def test_false_takes_away(base: Path, tmp_path: Path) -> None:
    text = 'extends = "shared/base.toml"\nplanner = false\n[roles]\ndepth = false\n'
    document = read_profile(child(tmp_path, text + "[run]\nbank = false\n"))
    assert set(document.models) == {"llm"} and set(document.roles) == {"detector"}
    assert document.bank is None


def test_chains_and_names(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = tmp_path / "state" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "embedded.toml").write_text('extends = "embedded"\n[run]\ntrials = 7\n')
    (profiles / "mine.toml").write_text('extends = "embedded"\n[run]\nexamples = 1\n')
    document = read_profile("mine", tmp_path / "state")
    assert (document.run.trials, document.run.examples) == (7, 1)
    assert document.llm == read_profile("embedded").llm


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('extends = "nothing"', r"child.toml:1: extends: unknown profile 'nothing'; known: "),
        ("extends = 3", r"child.toml:1: extends: expected a profile's name or path; got 3"),
        ('\nextends = "no.toml"', r"no.toml: no such profile file"),
        ('\nextends = "child.toml"', r"child.toml:2: extends: .*child.toml extends this profile"),
        ('extends = "shared/broken.toml"', r"broken.toml:2: run.trials: input should be"),
        ('extends = "shared/base.toml"\n[roles]\ndetector = 3', r"child.toml:3: roles.detector"),
        ('extends = "embedded"\n[hardware]\ngpu_gib = -1', r"child.toml:3: hardware.gpu_gib.* -1"),
    ],
)
def test_mistakes_name_the_file_and_the_line(
    base: Path, tmp_path: Path, text: str, said: str
) -> None:
    (base / "broken.toml").write_text('[run]\ntrials = "x"\n[llm]\nbackend = "openai"\n')
    with pytest.raises(ProfileError, match=said):
        read_profile(child(tmp_path, text))


def test_two_profiles_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('extends = "child.toml"')
    with pytest.raises(ProfileError, match="extends this profile itself"):
        read_profile(child(tmp_path, 'extends = "other.toml"'))


def test_every_shipped_profile_is_read() -> None:
    for name in known_profiles():
        assert read_profile(name).name == name
