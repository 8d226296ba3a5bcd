"""Whether a profile fits a machine: memory by weights, caches and activations, and downloads.

`needs` estimates each model once, even if roles share it, and `fit` adds them up and compares with
a memory. `shortfall` says why a profile does not fit the `Machine`, and `fitting` lists the
proposed profiles that do.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.models.checkpoints import facts_of, weights_gib
from viper.models.llm.wrapped import BATCH
from viper.models.loading import split_options
from viper.profiles.backends import VLM, asks_vlm, backend_class, loads_weights, played
from viper.profiles.document import BackendChoice, ProfileDocument
from viper.profiles.files import proposed_profiles
from viper.profiles.wiring import Profile

# Share of a memory that models may take; the rest is for the system and for fragments. Profiles
# promise their fit by it, see `Hardware`.
SHARE = 0.9

# Memory that CUDA takes on a GPU before any model.
CUDA_CONTEXT_GIB = 0.6

# Tokens of a prompt with the API's text, by which keys and values are estimated. A first question
# about a picture had 4,889 to 5,165.
PROMPT_TOKENS = 5200

# Tokens of one picture at the default bound of its pixels (`viper.models.llm.messages.MAX_PIXELS`)
# in Qwen2-VL and Qwen2.5-VL; 980 in Qwen3-VL.
PICTURE_TOKENS = 1280


@dataclass(frozen=True)
class Machine:
    """What a machine offers to models.

    Attributes:
        gpu: name of its first GPU, or None.
        gpu_gib: memory of that GPU; 0 without one.
        ram_gib: memory of the machine.
        disk_gb: free space for downloads in 10^9 bytes.
    """

    gpu: str | None
    gpu_gib: float
    ram_gib: float
    disk_gb: float

    @classmethod
    def here(cls) -> Machine:
        """Return this machine. Nothing large is imported."""
        query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
        name, gpu_gib = None, 0.0
        try:
            done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
            first, _, mib = done.stdout.splitlines()[0].rpartition(",")
            name, gpu_gib = first.strip(), float(mib) / 1024
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            pass  # no driver, so no GPU
        ram = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
        cache = Path(os.environ.get("HF_HOME", home)) / "hub"
        folder = Path(os.environ.get("HF_HUB_CACHE", cache)).expanduser().absolute()
        while not folder.exists():
            folder = folder.parent
        return cls(name, gpu_gib, ram, shutil.disk_usage(folder).free / 1e9)

    def memory_gib(self, document: ProfileDocument) -> float:
        """Return the memory that holds a profile's models here."""
        on_cpu = document.load.get("device") == "cpu"
        return self.ram_gib if on_cpu else self.gpu_gib or self.ram_gib


@dataclass(frozen=True)
class Need:
    """Memory that one model takes, in GiB.

    Attributes:
        role: the first of the roles that share it.
        is_known: False if nothing states its size; it counts 0 then.
    """

    role: str
    model: str
    weights: float
    caches: float
    activations: float
    is_known: bool = True


def needs(profile: Profile, memory_gib: float, *, on_gpu: bool) -> list[Need]:
    """Return what each model of a profile takes; a model that roles share counts once.

    On a GPU, models whose own options put them on the processor do not count.

    Args:
        memory_gib: memory of the device, of which vLLM takes a share.
        on_gpu: whether the models run on a GPU.
    """
    result: dict[Any, Need] = {}
    for role, choice in profile.choices():
        source, backend = profile.model_source(choice), choice.backend
        elsewhere = on_gpu and choice.options.get("device") == "cpu"
        if source is None or backend == "openai" or elsewhere:
            continue
        key = profile.shared_model(role, choice) or (role, source)
        if key in result:
            continue
        options, facts = profile.options(role, choice), facts_of(choice.model)
        precision = "bfloat16"
        if loads_weights(role, backend):
            precision = split_options(options)[0].precision(on_gpu)
        weights, max_tokens = weights_gib(source, precision), profile.document.run.max_tokens
        tokens = 0  # whose keys and values are in memory at once
        if backend == VLM or asks_vlm(role, backend):
            batch = int(_option(role, choice, options, "batch_size"))
            tokens = batch * (PROMPT_TOKENS + PICTURE_TOKENS + max_tokens)
        elif (played(role), backend) == ("llm", "transformers"):
            kept = int(_option(role, choice, options, "kept_prompts"))
            tokens = (kept + BATCH) * (PROMPT_TOKENS + max_tokens)
        caches = tokens * (facts.kv_kib_per_token if facts else 0.0) / 2**20
        if backend == "vllm":
            share = _option(role, choice, options, "gpu_memory_utilization")
            caches = max(0.0, share * memory_gib - weights)
        activations = facts.activations_gib if facts else 0.0
        model = choice.model or source
        result[key] = Need(role, model, weights, caches, activations, weights > 0)
    return list(result.values())


def _option(role: str, choice: BackendChoice, options: Mapping[str, Any], name: str) -> float:
    """Return the value of an option, or the default that its backend declares."""
    default = inspect.signature(backend_class(role, choice.backend)).parameters[name].default
    return float(options.get(name, default))


@dataclass(frozen=True)
class Fit:
    """What a profile needs beside what there is, in GiB.

    Attributes:
        weights: of all models, or of those that a memory bound lets stay at once.
        caches: keys and values of language models, and encodings of pictures.
        activations: of one forward pass of each model.
        memory: of the device that holds them.
    """

    weights: float
    caches: float
    activations: float
    context: float
    memory: float

    @property
    def needed(self) -> float:
        return self.weights + self.caches + self.activations + self.context

    @property
    def holds(self) -> bool:
        """Return True if the models take no more than their share of the memory."""
        return self.needed <= SHARE * self.memory

    @property
    def text(self) -> str:
        return (
            f"weights {self.weights:.1f}, caches {self.caches:.1f}, activations "
            f"{self.activations:.1f}: together {self.needed:.1f} of {self.memory:.1f} GiB"
        )


def fit(profile: Profile, memory_gib: float, *, on_gpu: bool) -> Fit:
    """Return whether a profile fits a memory."""
    models = needs(profile, memory_gib, on_gpu=on_gpu)
    weights = [need.weights for need in models]
    bound = profile.max_memory_gb or profile.document.max_memory_gb
    total = max(min(sum(weights), bound or sum(weights)), max(weights, default=0.0))
    encodings = profile.document.tools.cache_mb / 1024 if models else 0.0
    return Fit(
        total,
        sum(need.caches for need in models) + encodings,
        sum(need.activations for need in models),
        CUDA_CONTEXT_GIB if on_gpu and models else 0.0,
        memory_gib,
    )


def promised(profile: Profile) -> Fit | None:
    """Return the fit to the machine that the profile promises to fit; None without a promise."""
    hardware = profile.document.hardware
    if hardware is None or not hardware.memory_gib:
        return None
    return fit(profile, hardware.memory_gib, on_gpu=hardware.gpu_gib > 0)


def shortfall(profile: Profile, machine: Machine) -> str | None:
    """Return why a profile does not fit a machine, with a profile that does; None if it fits."""
    here = machine.memory_gib(profile.document)
    needed = fit(profile, here, on_gpu=here == machine.gpu_gib)
    if needed.holds:
        return None
    what = f"the GPU ({machine.gpu})" if here == machine.gpu_gib else "this machine, without a GPU,"
    smaller = [each.name for each in fitting(machine)]
    advice = f"use --profile {smaller[-1]}" if smaller else "use --profile endpoint"
    return (
        f"needs {needed.needed:.1f} GiB, and {what} has {SHARE * here:.1f} of {here:.1f} GiB for "
        f"models; {advice}"
    )


def fitting(machine: Machine) -> list[ProfileDocument]:
    """Return the proposed profiles that fit a machine, the most demanding last."""
    # Cards and machines report a little less than their nominal size.
    return [
        document
        for hardware, document in proposed_profiles()
        if 1.03 * machine.gpu_gib >= hardware.gpu_gib and 1.08 * machine.ram_gib >= hardware.ram_gib
    ]
