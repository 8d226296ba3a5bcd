"""The models that a profile chooses: where they are, and the options they are loaded with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.embedded import WEIGHTS
from viper.errors import MissingExtraError, ProfileError
from viper.models.checkpoints import weights_gib
from viper.models.libraries import import_libraries
from viper.models.loading import split_options
from viper.profiles.backends import (
    FULL_PRECISION,
    SharedModel,
    asks_vlm,
    loading_options,
    loads_weights,
    shared_model,
)
from viper.profiles.document import EYES, WRITER, BackendChoice, ProfileDocument


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
        honoured = loading_options(role, choice.backend) if choice.model is not None else ()
        load = {name: value for name, value in self.document.load.items() if name in honoured}
        if role in FULL_PRECISION:
            load.pop("quantize", None)
            load |= {"dtype": "float32"} if "dtype" in load else {}
        options = {**load, **choice.options}
        if isinstance(options.get("adapter"), str):
            options["adapter"] = self._source(options["adapter"])
        return options

    def shared_model(self, role: str, choice: BackendChoice) -> SharedModel | None:
        """Return the model of a role, which roles with an equal one share, or None.

        Raises:
            ProfileError: a shipped model does not exist, or an option for loading is wrong.
        """
        table = self.asked_table(role, choice)
        if table is not None:
            return self.shared_model(table, self.document.models[table])
        source = self.model_source(choice)
        return shared_model(role, choice.backend, source, self.options(role, choice))

    def asked_table(self, role: str, choice: BackendChoice) -> str | None:
        """Return the table of the language model that a role asks instead of naming one, or
        None.
        """
        if choice.model is not None or not asks_vlm(role, choice.backend):
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
            raise ProfileError(
                f"{name}: not shipped with this package; known: "
                + ", ".join(sorted(path.name for path in WEIGHTS.glob("*") if path.is_dir()))
            )
        return str(folder)

    def beside(self, name: str) -> str:
        """Resolve a path that begins with ``./`` or ``../`` against the profile's folder."""
        base = self.document.base
        if not name.startswith(("./", "../")) or base is None:
            return name
        return str((base / name).resolve())

    def weights_bytes(self, role: str, choice: BackendChoice) -> int:
        """Return the memory of a model's weights here, before it is loaded; 0 if it is unknown."""
        source, options = self.model_source(choice), self.options(role, choice)
        if source is None or not loads_weights(role, choice.backend):
            return 0
        loading = split_options(options)[0]
        import_libraries()
        on_gpu = loading.device_map is not None or loading.resolved_device() != "cpu"
        return round(weights_gib(source, loading.precision(on_gpu)) * 2**30)
