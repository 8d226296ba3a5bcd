"""What a profile takes of a memory, and whether the shipped ones keep their promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from viper.models.checkpoints import catalogue, facts_of
from viper.profiles import known_profiles, load_profile
from viper.profiles.files import read_profile
from viper.profiles.fit import Machine, fit, fitting, needs, promised, shortfall

PROMISES = [name for name, path in known_profiles().items() if read_profile(str(path)).hardware]
LAPTOP = Machine(None, 0.0, 15.4, 100.0)


def gpu(gib: float) -> Machine:
    return Machine("Card", gib, 64.0, 500.0)


@pytest.mark.parametrize("name", PROMISES)
def test_a_profile_takes_at_most_its_share_of_the_memory_it_promises(name: str) -> None:
    promise = promised(load_profile(name))
    assert promise is not None and promise.holds, promise and promise.text


@pytest.mark.parametrize("name", PROMISES)
def test_the_catalogue_knows_every_model_of_a_profile_that_promises(name: str) -> None:
    profile = load_profile(name)
    assert all(need.is_known for need in needs(profile, 24, on_gpu=True))


def own(tmp_path: Path, text: str, **options: float) -> object:
    (tmp_path / "own.toml").write_text(text)
    return load_profile(str(tmp_path / "own.toml"), **options)  # type: ignore[arg-type]


VLM = """
[llm]
backend = "vlm"
model = "Qwen/Qwen3-VL-2B-Instruct"
options = { batch_size = 3 }
[roles]
vqa = { backend = "vlm" }
video = { backend = "vlm", model = "Qwen/Qwen3-VL-2B-Instruct", options = { frames = 2 } }
detector = { backend = "owlv2", model = "google/owlv2-base-patch16-ensemble" }
[tools]
cache_mb = 0
[run]
max_tokens = 512
"""


def test_a_model_in_several_roles_counts_once_and_boxes_in_float32(tmp_path: Path) -> None:
    profile = own(tmp_path, VLM + '[load]\ndtype = "bfloat16"\n')
    llm, detector = needs(profile, 24, on_gpu=True)  # type: ignore[arg-type]
    facts = facts_of("Qwen/Qwen3-VL-2B-Instruct")
    assert facts is not None
    assert llm.weights == pytest.approx(2 * facts.parameters / 2**30)
    assert llm.caches == pytest.approx(3 * (5200 + 1280 + 512) * facts.kv_kib_per_token / 2**20)
    owl = facts_of("google/owlv2-base-patch16-ensemble")
    assert owl is not None and detector.weights == pytest.approx(4 * owl.parameters / 2**30)


def test_precision_decides_on_the_weights(tmp_path: Path) -> None:
    def weights(load: str, on_gpu: bool) -> float:
        profile = own(tmp_path, VLM + f"[load]\n{load}\n")
        return needs(profile, 24, on_gpu=on_gpu)[0].weights  # type: ignore[arg-type]

    half = weights('dtype = "bfloat16"', True)
    assert weights("", False) == 2 * half and weights("", True) == half
    assert weights('quantize = "4bit"', True) < 0.3 * half < weights('quantize = "8bit"', True)


def test_a_bound_limits_the_weights_but_not_below_the_largest_model(tmp_path: Path) -> None:
    def weights(**options: float) -> float:
        profile = own(tmp_path, VLM + '[load]\ndtype = "bfloat16"\n', **options)
        return fit(profile, 24, on_gpu=True).weights  # type: ignore[arg-type]

    assert weights() == pytest.approx(4.54, abs=0.05)
    assert weights(max_memory_gb=4.2) == pytest.approx(4.2)
    assert weights(max_memory_gb=1) == pytest.approx(3.96, abs=0.05)


def test_vllm_takes_its_share_of_the_device(tmp_path: Path) -> None:
    text = '[llm]\nbackend = "vllm"\nmodel = "Qwen/Qwen3-VL-2B-Instruct"\n'
    profile = own(tmp_path, text + "options = { gpu_memory_utilization = 0.5 }\n")
    (llm,) = needs(profile, 24, on_gpu=True)  # type: ignore[arg-type]
    assert llm.weights + llm.caches == pytest.approx(12)


def test_what_does_not_fit_names_a_profile_that_does() -> None:
    assert shortfall(load_profile("gpu-24gb"), gpu(24)) is None
    lack = shortfall(load_profile("gpu-24gb"), gpu(15.7))
    assert lack is not None and "the GPU (Card)" in lack and "use --profile gpu-16gb" in lack
    lack = shortfall(load_profile("paper-dwim"), LAPTOP)
    assert lack is not None and "without a GPU" in lack and "--profile cpu" in lack
    assert shortfall(load_profile("embedded"), LAPTOP) is None


@pytest.mark.parametrize(
    ("machine", "best"),
    [
        (LAPTOP, "cpu"),
        (gpu(7.8), "gpu-8gb"),
        (gpu(23.6), "gpu-24gb"),
        (gpu(47.5), "gpu-24gb"),
        (gpu(79.2), "gpu-80gb"),
    ],
)
def test_the_most_demanding_profile_that_fits_comes_last(machine: Machine, best: str) -> None:
    assert fitting(machine)[-1].name == best


def test_a_small_machine_is_offered_endpoints_alone() -> None:
    names = [document.name for document in fitting(Machine(None, 0.0, 4.0, 10.0))]
    assert names == ["endpoint"]


def test_every_checkpoint_states_where_its_facts_come_from() -> None:
    for name, facts in catalogue().items():
        assert facts.source and facts.licence and facts.parameters > 1e6 and facts.disk_gb > 0, name
