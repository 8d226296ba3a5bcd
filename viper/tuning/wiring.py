"""Builds a learner from a profile, as :mod:`viper.profiles.wiring` builds a reasoner's components.

The learner stores into the pools of the profile's state. Data comes from LVIS or another file in
COCO's form, from a folder of pictures, from a picture search on the web, or from an installed
package: an entry point of the group ``viper.learning_data`` names an object with the methods of
:class:`DrawnData`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

from viper.api.spec import api_hash
from viper.data.source import SourceFile
from viper.errors import UnknownNameError, UsageError
from viper.models.vision.prompt_pool import FOLDER as PROMPTS
from viper.models.vision.prompt_pool import PromptPool
from viper.plugins import Registry
from viper.record import record_from_toml
from viper.strategies.base import Components
from viper.strategies.demonstration_pool import FOLDER as DEMONSTRATIONS
from viper.strategies.demonstration_pool import DemonstrationPool
from viper.tuning.language_reflector import LanguageReflector
from viper.tuning.learner import ExampleOrigin, Learner, LearnSettings
from viper.tuning.lvis import CocoStore, Lvis
from viper.tuning.picture_web import PictureService, WebSearch
from viper.tuning.reflector import InterventionReflector, Reflector
from viper.tuning.soft_prompts.base import Progress
from viper.tuning.tool_training import Memory, Sources, ToolTrainer
from viper.tuning.tool_updates import ToolUpdates, UpdateSettings
from viper.tuning.training_data import POSITIVES, AnnotatedStore, PictureSearch

# Kinds of reflection. ``llm`` asks globally, then locally, as in the paper. The last three are for
# ablations.
Reflection = Literal[
    "intervention", "llm", "both", "none", "llm-global", "llm-local", "llm-without-results"
]

# Data that packages draw; the two names have a meaning of their own.
LEARNING_DATA = Registry(
    "viper.learning_data", "data for learning", dict.fromkeys(("lvis", "none"), "")
)


@dataclass(frozen=True)
class Data:
    """Sources of data for concepts.

    Attributes:
        annotated: ``lvis`` (files below ``root``), a ``.json`` file in COCO's form, ``none``, or
            the name of an installed package's data. None uses the first installed package, else
            ``none``.
        root: folder of LVIS, or of the pictures of a ``.json`` file; by default ``images`` beside
            it, else its own folder.
        pictures: a folder of pictures, a ``.toml`` file that describes a search on the web (the
            fields of :class:`viper.tuning.picture_web.PictureService`), or ``none``, a name or None
            as for ``annotated``.
        positives: most pictures of a concept. loc takes up to 200 and seg up to 50, but training
            time grows accordingly.
        seed: random seed for pictures that a package draws.
        leave_out: names of pictures, without their folders, that nothing is learned from, because
            they judge what was learned. A search on the web does not know them.
    """

    annotated: str | None = None
    root: Path | None = None
    pictures: str | None = None
    positives: int = POSITIVES
    seed: int = 0
    leave_out: frozenset[str] = frozenset()

    @property
    def is_own(self) -> bool:
        """Return whether it is data of the user: something, and nothing that a package draws."""
        names = {self.annotated or default_data(), self.pictures or default_data()}
        return names != {"none"} and not names & LEARNING_DATA.installed().keys()


class DrawnData(Protocol):
    """Protocol of a package's own data for concepts."""

    def annotated(self) -> AnnotatedStore:
        """Return the store of boxes and masks, for loc and seg."""

    def pictures(self, seed: int) -> PictureSearch:
        """Return the picture search, for match and replace; the seed chooses the pictures."""


def default_data() -> str:
    """Return the name of the first data that an installed package draws, or ``none``."""
    return next(iter(LEARNING_DATA.installed()), "none")


def learner_for(
    components: Components,
    state: Path,
    data: Data | Sources,
    *,
    reflection: str = "intervention",
    settings: LearnSettings | None = None,
    tools: UpdateSettings | None = None,
    origin: ExampleOrigin | None = None,
    on_step: Callable[[str], None] = lambda text: None,
    on_progress: Progress | None = None,
    memory: Memory | None = None,
) -> Learner:
    """Build a learner whose pools are in a state's folder.

    Args:
        components: components that use the same pools, so that learning takes effect at once.
        data: sources, open or to be opened.
        tools: settings for updating tools; None trains no tools.
        origin: origin that demonstrations record; None records the program writer and its API.
        memory: cache of trained prompts; see :class:`~viper.tuning.tool_training.ToolTrainer`.

    Raises:
        UnknownNameError: there is no such reflection or store.
        UsageError, DataError, StoreError: a source of data cannot be opened.
    """
    updates = None
    if tools is not None:
        sources = data if isinstance(data, Sources) else open_sources(data, components, state)
        updates = ToolUpdates(
            components.toolbox,
            ToolTrainer(components.toolbox.models, PromptPool(state / PROMPTS), sources, memory),
            tools,
            on_step,
            on_progress,
        )
    return Learner(
        updates,
        reflectors_of(components, reflection),
        DemonstrationPool(state / DEMONSTRATIONS),
        settings or LearnSettings(),
        origin or origin_of(components),
        on_step,
    )


def origin_of(components: Components, set_name: str = "", split: str = "") -> ExampleOrigin:
    """Return the origin that demonstrations of these components record."""
    api = components.library.api_set(components.settings.api)
    return ExampleOrigin(
        components.llm.model_id, api_hash(api.entries("question")), set=set_name, split=split
    )


def reflectors_of(components: Components, reflection: str) -> list[Reflector]:
    """Return the reflectors in order of use. A language model is asked globally, then locally.

    The language model is the profile's critic, or the program writer if there is no critic. Small
    writers, whose prompts are compact, have not learned to reflect.

    Raises:
        UnknownNameError: there is no such reflection.
        UsageError: it needs a language model, and there is a small writer only.
    """
    if reflection not in get_args(Reflection):
        raise UnknownNameError("reflection", reflection, get_args(Reflection))
    reflectors: list[Reflector] = []
    if reflection in ("intervention", "both"):
        reflectors.append(InterventionReflector(components))
    toolbox, writer = components.toolbox, (components.llm, components.settings.prompt_style)
    llm, style = components.model("critic") or writer
    if style == "compact" and reflection not in ("intervention", "none"):
        if reflectors:
            return reflectors
        raise UsageError(
            f"reflector {reflection!r} needs a language model that has learned to reflect; name "
            "one as [critic] in the profile, or take --reflector intervention"
        )
    if reflection in ("llm", "both", "llm-global"):
        reflectors.append(LanguageReflector(llm, toolbox))
    if reflection in ("llm", "both", "llm-local"):
        reflectors.append(LanguageReflector(llm, toolbox, "local"))
    if reflection == "llm-without-results":
        reflectors.append(LanguageReflector(llm, toolbox, results=False))
    return reflectors


def open_sources(data: Data, components: Components, state: Path) -> Sources:
    """Open the sources of training data; ``state`` takes the index of a folder.

    Raises:
        UnknownNameError, UsageError, DataError, StoreError: as :func:`learner_for`.
    """
    return Sources(_store(data), _search(data, components, state), data.positives)


def _store(data: Data) -> AnnotatedStore | None:
    offers = LEARNING_DATA.installed()
    name = data.annotated or default_data()
    if name in offers:
        drawn: DrawnData = offers[name].load()
        return drawn.annotated()
    if name == "none":
        return None
    path = Path(name)
    if path.suffix == ".json":
        file = SourceFile(path.parent, path.name)
        return CocoStore(file, data.root, f"coco:{path.stem}", data.leave_out)
    if name != "lvis":
        raise UnknownNameError("annotated store", name, [*offers, "lvis", "none", "FILE.json"])
    if data.root is None:
        raise UsageError("LVIS has to be on this disk; name its folder with --annotated-root")
    return Lvis(data.root, data.leave_out)


def _search(data: Data, components: Components, state: Path) -> PictureSearch | None:
    offers = LEARNING_DATA.installed()
    name = data.pictures or default_data()
    if name in offers:
        drawn: DrawnData = offers[name].load()
        return drawn.pictures(data.seed)
    if name == "none":
        return None
    path = Path(name)
    if path.suffix == ".toml":
        return WebSearch(record_from_toml(PictureService, path), state / "web-pictures")
    if not path.is_dir():
        names = ", ".join([*offers, "none"])
        raise UsageError(
            f"{name}: expected {names}, a folder of pictures, or a .toml file that describes a "
            "search on the web"
        )
    from viper.tuning.picture_folder import FolderSearch

    matcher = components.toolbox.models.shared("matcher")
    return FolderSearch(path, matcher, state, leave_out=data.leave_out)
