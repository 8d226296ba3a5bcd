"""The models of a profile: where they are, their options, and how each loads at its first use.

`ModelChoices` says without loading what each role of the profile takes. `ProfileModels` wraps every
language model as a `DeferredLLM` and adds the other roles to a `ModelSet`; the first call of a role
loads its backend, and roles with an equal model share its weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from viper.embedded import WEIGHTS
from viper.errors import MissingExtraError, ProfileError
from viper.models.checkpoints import weights_gib
from viper.models.libraries import import_libraries
from viper.models.llm.protocol import LLM
from viper.models.llm.wrapped import BATCH, CachedLLM, DeferredLLM, GatheredLLM
from viper.models.loading import split_options
from viper.models.memory import MemoryBudget
from viper.models.vision.roles import Floats
from viper.profiles import backends
from viper.profiles.document import EYES, WRITER, BackendChoice, ProfileDocument
from viper.profiles.files import proposed_profiles, state_dir
from viper.tools.models import ModelSet


@dataclass(frozen=True)
class ModelChoices:
    """The models of a profile, before they are loaded.

    Attributes:
        state: folder of pools and caches; see :func:`viper.profiles.files.state_dir`.
    """

    document: ProfileDocument
    state: Path | None = None

    def choices(self) -> Iterator[tuple[str, BackendChoice]]:
        """Yield the role and backend of every model, the language models first."""
        yield from self.document.models.items()
        yield from self.document.roles.items()

    def model_source(self, choice: BackendChoice) -> str | None:
        """Return the model to load: the shipped folder, the named folder, or a hub id.

        Raises:
            ProfileError: a shipped model of that name does not exist.
        """
        return self._source(choice.model)

    def options(self, role: str, choice: BackendChoice) -> Mapping[str, Any]:
        """Return the options of a backend.

        They are those of the profile's ``[load]`` that the backend honours, overridden by its own
        options. Roles of :data:`FULL_PRECISION` take no lower precision from ``[load]``. An adapter
        is named in the same way as a model.

        Raises:
            ProfileError: a shipped adapter of that name does not exist.
        """
        kind = backends.loaded_class(role, choice.backend) if choice.model is not None else None
        honoured = getattr(kind, "loads_with", ())
        load = {name: value for name, value in self.document.load.items() if name in honoured}
        if role in backends.FULL_PRECISION:
            load.pop("quantize", None)
            load |= {"dtype": "float32"} if "dtype" in load else {}
        options = {**load, **choice.options}
        if isinstance(options.get("adapter"), str):
            options["adapter"] = self._source(options["adapter"])
        return options

    def shared_model(self, role: str, choice: BackendChoice) -> backends.SharedModel | None:
        """Return the model of a role, which roles with an equal one share, or None.

        Raises:
            ProfileError: a shipped model does not exist, or an option for loading is wrong.
        """
        table = self.asked_table(role, choice)
        if table is not None:
            return self.shared_model(table, self.document.models[table])
        source = self.model_source(choice)
        if source is None:
            return None
        options, backend = self.options(role, choice), choice.backend
        if backends.asks_vlm(role, backend):
            role, backend = "llm", backends.VLM
        if backends.played(role) != "llm":
            return None
        own = asdict(split_options(options)[0]) if backend == backends.VLM else dict(options)
        options_json = json.dumps(own, sort_keys=True, default=str)
        return backends.SharedModel(backend, source, options_json, role)

    def asked_table(self, role: str, choice: BackendChoice) -> str | None:
        """Return the table of the language model that a role asks instead of naming one, or
        None.
        """
        if choice.model is not None or not backends.asks_vlm(role, choice.backend):
            return None
        return EYES if EYES in self.document.models else WRITER

    def _source(self, name: str | None) -> str | None:
        if name is None:
            return None
        if not name.startswith("embedded:"):
            return self.beside(name)
        folder = WEIGHTS / name.removeprefix("embedded:")
        if not WEIGHTS.is_dir():
            raise MissingExtraError("viper_reasoner_weights", f"the model {name}")
        if not folder.is_dir():
            known = ", ".join(sorted(path.name for path in WEIGHTS.glob("*") if path.is_dir()))
            raise ProfileError(f"{name}: not shipped with this package; known: {known}")
        return str(folder)

    def beside(self, name: str) -> str:
        """Resolve a path that begins with ``./`` or ``../`` against the profile's folder."""
        base = self.document.base
        if base is None or not name.startswith(("./", "../")):
            return name
        return str((base / name).resolve())

    def weights_bytes(self, role: str, choice: BackendChoice) -> int:
        """Return the memory of a model's weights here, before it is loaded; 0 if it is unknown."""
        source = self.model_source(choice)
        if source is None or not backends.loads_weights(role, choice.backend):
            return 0
        loading = split_options(self.options(role, choice))[0]
        import_libraries()
        on_gpu = loading.device_map is not None or loading.resolved_device() != "cpu"
        return round(weights_gib(source, loading.precision(on_gpu)) * 2**30)


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
        budget = MemoryBudget(limit, partial(memory_advice, choices.document))
        self.tools = ModelSet({}, budget)
        self.llms: dict[str, DeferredLLM] = {}
        for role, choice in choices.document.models.items():
            shared = choices.shared_model(role, choice)
            assert shared is not None
            weights = budget.weights(shared, partial(choices.weights_bytes, role, choice))
            load = partial(weights.shared_model, shared.load)
            self.llms[role] = DeferredLLM(partial(self._load_llm, role, choice, load), weights)
        for role, choice in choices.document.roles.items():
            shared = choices.shared_model(role, choice)
            estimate = partial(choices.weights_bytes, role, choice)
            asks_writer = role == "text" and choice.model is None
            if shared is None or shared.backend != backends.VLM or asks_writer:
                self.tools.add(role, partial(self._load_role, role, choice), estimate)
            else:
                weights = budget.weights(shared, estimate)
                load = partial(weights.shared_model, shared.load)
                self.tools.add_sharing(role, weights, partial(self._load_vlm, role, choice, load))

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return the embedder's vectors of texts, float32 [N, D]."""
        with self.tools.using("embedder") as embedder:
            return embedder.embed(texts)

    def _load_llm(self, role: str, choice: BackendChoice, load: Callable[[], Any]) -> LLM:
        llm = self._on_vlm(role, choice, load()) if choice.backend == backends.VLM else load()
        if hasattr(llm, "remember"):
            llm.remember(state_dir(self._choices.state) / "endpoints.json")
        llm = GatheredLLM(llm, getattr(llm, "batch", BATCH))
        if not choice.cache:
            return llm
        from viper.storage.sqlite import SqliteStore

        store = SqliteStore(state_dir(self._choices.state) / "llm-cache.db")
        return CachedLLM(llm, store, self._choices.options(role, choice))

    def _load_vlm(self, role: str, choice: BackendChoice, load: Callable[[], Any]) -> Any:
        self._start_engines()
        return self._on_vlm(role, choice, load())

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
        of_model, of_role = backends.vlm_options(role, choice.backend, options)
        if of_model:
            model = backends.built(role, choice.backend, model.configured, (), of_model)
        if role not in self._document.roles:
            return model
        return self._asking(role, choice, GatheredLLM(model) if role == "text" else model, of_role)

    def _asking(
        self, role: str, choice: BackendChoice, model: Any, options: Mapping[str, Any]
    ) -> Any:
        arguments = (model,) if role != "text" else (model, self._document.run.prompt_style)
        kind = backends.backend_class(role, choice.backend)
        return backends.built(role, choice.backend, kind, arguments, options)

    def _load_role(self, role: str, choice: BackendChoice) -> Any:
        build = partial(backends.built, role, choice.backend)
        table = self._choices.asked_table(role, choice)
        if role == "text" and (choice.backend == backends.USES_LLM or table is not None):
            return self._asking(role, choice, self.llms[table or WRITER], choice.options)
        if table is not None:
            from viper.models.vision.vlm import EndpointVLM

            return self._asking(role, choice, EndpointVLM(self.llms[table]), choice.options)
        if choice.backend == backends.FRAMES and role == "video":
            from viper.models.vision.video_frames import FramesVideo

            others = (self.tools.shared("vqa"), self.tools.shared("matcher"))
            return build(FramesVideo, others, choice.options)
        state = state_dir(self._choices.state)
        if choice.backend in backends.ENGINES and role == "text_search":
            from viper.search.web_text import WebTexts
            from viper.storage.sqlite import SqliteStore

            store = SqliteStore(state / "search-cache.db")
            return WebTexts.described(choice.backend, choice.options, store)
        if backends.kind_of(role, choice.backend) == "search":
            from viper.search.named import DEFAULT, NamedPictures, NamedTexts

            index = choice.model or DEFAULT
            if role == "text_search":
                return build(NamedTexts, (state, index), choice.options)
            matcher = self.tools.shared("matcher")
            if matcher is None:
                raise ProfileError("image_search: an index of pictures needs a matcher in [roles]")
            return build(NamedPictures, (state, matcher, index), choice.options)
        if backends.loads_weights(role, choice.backend):
            self._start_engines()
        source, options = self._choices.model_source(choice), self._choices.options(role, choice)
        backend = backends.load_backend(role, choice.backend, source, options)
        if (role, choice.backend) == ("segmenter", backends.SAM2):
            backend.detector = self.tools.shared("detector")
        return backend


def memory_advice(document: ProfileDocument) -> str:
    """Return a clause that names the largest proposed profile for less memory, or ""."""
    if find_spec("torch") is None:
        return ""
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
