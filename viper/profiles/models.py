"""Builds the models of a profile, each of which is loaded on first use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from viper.errors import ProfileError
from viper.models.llm.protocol import LLM
from viper.models.llm.wrapped import BATCH, CachedLLM, DeferredLLM, GatheredLLM
from viper.models.memory import MemoryBudget
from viper.models.vision.roles import Floats
from viper.profiles.backends import (
    ENGINES,
    FRAMES,
    SAM2,
    SEARCHES,
    USES_LLM,
    VLM,
    backend_class,
    built,
    load_backend,
    loads_weights,
    vlm_options,
)
from viper.profiles.choices import ModelChoices
from viper.profiles.document import WRITER, BackendChoice, ProfileDocument
from viper.profiles.files import proposed_profiles, state_dir
from viper.tools.models import ModelSet


class ProfileModels:
    """The models of a profile; equal ones share their weights.

    Args:
        limit: most bytes for the weights of all models together, or None.

    Attributes:
        llms: the language models by role.
        tools: the vision models and other tools by role.
    """

    def __init__(self, choices: ModelChoices, limit: int | None) -> None:
        self._choices, self._document = choices, choices.document
        advice = partial(memory_advice, choices.document)
        self.tools = ModelSet({}, MemoryBudget(limit, advice))
        self.llms = {
            role: self._deferred_llm(role, choice)
            for role, choice in choices.document.models.items()
        }
        for role, choice in choices.document.roles.items():
            self._add_role(role, choice)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return the embedder's vectors of texts, float32 [N, D]."""
        with self.tools.using("embedder") as embedder:
            return embedder.embed(texts)

    def _deferred_llm(self, role: str, choice: BackendChoice) -> DeferredLLM:
        """Return a language model that loads at its first use."""
        shared = self._choices.shared_model(role, choice)
        assert shared is not None
        estimate = partial(self._choices.weights_bytes, role, choice)
        weights = self.tools.budget.weights(shared, estimate)
        load = partial(weights.shared_model, shared.load)
        return DeferredLLM(partial(self._load_llm, role, choice, load), weights)

    def _load_llm(self, role: str, choice: BackendChoice, load: Callable[[], Any]) -> LLM:
        llm = self._on_vlm(role, choice, load()) if choice.backend == VLM else load()
        llm = GatheredLLM(llm, getattr(llm, "batch", BATCH))
        if not choice.cache:
            return llm
        from viper.storage.responses import SqliteStore

        store = SqliteStore(state_dir(self._choices.state) / "llm-cache.db")
        return CachedLLM(llm, store, self._choices.options(role, choice))

    def _add_role(self, role: str, choice: BackendChoice) -> None:
        shared = self._choices.shared_model(role, choice)
        asks_writer = role == "text" and choice.model is None
        estimate = partial(self._choices.weights_bytes, role, choice)
        if shared is None or shared.backend != VLM or asks_writer:
            self.tools.add(role, partial(self._load_role, role, choice), estimate)
            return
        weights = self.tools.budget.weights(shared, estimate)

        def load() -> Any:
            self._start_engines()
            return self._on_vlm(role, choice, weights.shared_model(shared.load))

        self.tools.add_sharing(role, weights, load)

    def _start_engines(self) -> None:
        """Load the language models that take a share of the whole device, before any other
        model.
        """
        for role, choice in self._document.models.items():
            if choice.backend == "vllm":
                str(self.llms[role].model_id)  # asking for the name loads it

    def _on_vlm(self, role: str, choice: BackendChoice, model: Any) -> Any:
        """Return a loaded ``ChatVLM`` with the options of a language model, or a role's backend on
        it.
        """
        table = self._choices.asked_table(role, choice)
        if table is not None:
            model = self._on_vlm(table, self._document.models[table], model)
        options = self._choices.options(role, choice)
        of_model, of_role = vlm_options(role, choice.backend, options)
        if of_model:
            model = built(role, choice.backend, model.configured, (), of_model)
        if role not in self._document.roles:
            return model
        return self._asking(role, choice, GatheredLLM(model) if role == "text" else model, of_role)

    def _asking(
        self, role: str, choice: BackendChoice, model: Any, options: Mapping[str, Any]
    ) -> Any:
        arguments = (model,) if role != "text" else (model, self._document.run.prompt_style)
        return built(role, choice.backend, backend_class(role, choice.backend), arguments, options)

    def _load_role(self, role: str, choice: BackendChoice) -> Any:
        table = self._choices.asked_table(role, choice)
        if role == "text" and (choice.backend == USES_LLM or table is not None):
            return self._asking(role, choice, self.llms[table or WRITER], choice.options)
        if table is not None:
            from viper.models.vision.vlm import EndpointVLM

            return self._asking(role, choice, EndpointVLM(self.llms[table]), choice.options)
        if choice.backend == FRAMES and role == "video":
            from viper.models.vision.video_frames import FramesVideo

            others = (self.tools.shared("vqa"), self.tools.shared("matcher"))
            return built(role, choice.backend, FramesVideo, others, choice.options)
        if (role, choice.backend) in SEARCHES:
            return self._load_search(role, choice)
        if loads_weights(role, choice.backend):
            self._start_engines()
        source, options = self._choices.model_source(choice), self._choices.options(role, choice)
        backend = load_backend(role, choice.backend, source, options)
        if (role, choice.backend) == ("segmenter", SAM2):
            backend.detector = self.tools.shared("detector")
        return backend

    def _load_search(self, role: str, choice: BackendChoice) -> Any:
        """Load a search: in an index of the state, or on the web with cached replies."""
        state = state_dir(self._choices.state)
        if choice.backend in ENGINES:
            from viper.search.web_text import WebTexts
            from viper.storage.responses import SqliteStore

            store = SqliteStore(state / "search-cache.db")
            return WebTexts.described(choice.backend, choice.options, store)
        from viper.search.named import DEFAULT, NamedPictures, NamedTexts

        name = choice.model or DEFAULT
        if role == "text_search":
            return built(role, choice.backend, NamedTexts, (state, name), choice.options)
        matcher = self.tools.shared("matcher")
        if matcher is None:
            raise ProfileError("image_search: an index of pictures needs a matcher in [roles]")
        return built(role, choice.backend, NamedPictures, (state, matcher, name), choice.options)


def memory_advice(document: ProfileDocument) -> str:
    """Return a clause that names the largest proposed profile for less memory, or ""."""
    import torch

    cuda = torch.cuda.is_available()
    device = torch.cuda.mem_get_info()[1] / 2**30 if cuda else math.inf
    below = document.hardware.memory_gib if document.hardware else math.inf
    smaller = [
        (hardware.memory_gib, other.name)
        for hardware, other in proposed_profiles()
        if (cuda or not hardware.gpu_gib) and hardware.memory_gib < min(below, 1.05 * device)
    ]
    if not smaller:
        return ""
    gib, name = max(smaller)
    return f"; the profile {name} is made for {gib:g} GiB: --profile {name}"
