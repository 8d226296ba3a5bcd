"""The catalogue of checkpoints knows what the shipped profiles name, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from viper.models.checkpoints import catalogue
from viper.profiles import load_profile
from viper.profiles.document import BackendChoice
from viper.profiles.files import read_profile, shipped_profiles
from viper.profiles.fit import promised

PROFILES = sorted(shipped_profiles())


def checkpoints(profile: str) -> set[str]:
    """Return the published checkpoints that a shipped profile names; endpoints hold their own."""
    document = read_profile(profile)
    choices: list[BackendChoice] = [*document.models.values(), *document.roles.values()]
    return {
        choice.model
        for choice in choices
        if choice.model and choice.backend != "openai" and not choice.model.startswith("embedded:")
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_the_catalogue_has_every_checkpoint_of_a_profile(profile: str) -> None:
    assert checkpoints(profile) - catalogue().keys() == set()


def test_every_checkpoint_of_the_catalogue_is_used() -> None:
    assert catalogue().keys() == set().union(*map(checkpoints, PROFILES))


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_facts_agree_with_one_another(name: str) -> None:
    facts = catalogue()[name]
    assert 1e7 < facts.parameters < 1e11 and facts.licence and len(facts.source) > 20
    # Files hold 16 or 32 bits for each parameter, and may hold parts that are not loaded.
    assert 1.9 < facts.disk_gb * 1e9 / facts.parameters < 5.5
    assert facts.activations_gib > 0
    assert (facts.kv_kib_per_token > 0) == (facts.parameters > 1.2e9 and "Qwen" in name) or (
        name in ("llava-hf/llava-1.5-7b-hf",) and facts.kv_kib_per_token == 512
    )


TIERS = ("cpu", "gpu-8gb", "gpu-16gb", "gpu-24gb", "gpu-80gb")


@pytest.mark.parametrize(("smaller", "larger"), pairwise(TIERS))
def test_tiers_grow(smaller: str, larger: str) -> None:
    sizes = []
    for name in (smaller, larger):
        document = read_profile(name)
        assert document.run.examples == 0 and document.bank is None
        assert document.facts and document.llm.sees and "segmenter" in document.roles
        sizes.append(sum(catalogue()[each].parameters for each in checkpoints(name)))
    assert sizes[0] < sizes[1] or larger == "gpu-24gb"  # the same models, in 16 bits


@pytest.mark.parametrize("profile", PROFILES)
def test_everything_fits_the_memory_that_a_profile_promises(profile: str) -> None:
    fit = promised(load_profile(profile))
    assert profile.startswith("embedded") or fit is not None
    if fit is not None:
        assert fit.needed <= 0.9 * fit.memory, fit.text


def test_a_profile_that_takes_more_than_it_promises_is_found_out() -> None:
    fit = promised(load_profile("gpu-24gb"))
    assert fit is not None and not replace(fit, memory=fit.memory - 1).holds
