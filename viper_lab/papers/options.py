"""What every reproduction can be told: how much, of which data, by which models, into which folder.

Imports next to nothing: the command line reads it for its help.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viper.commands.options import ProfileChoice, open_profile

if TYPE_CHECKING:
    from viper.profiles.wiring import Profile


@dataclass(frozen=True)
class Options:
    """See ``viper lab reproduce NAME --help``.

    Attributes:
        seeds: their number.
        samples: answered under each seed, of each part.
        set_name: of the data; ``world`` stands for what the reproduction takes of it.
    """

    quick: bool
    seeds: int
    samples: int
    out: Path
    set_name: str
    root: Path | None
    split: str | None
    as_json: bool
    profile: ProfileChoice

    @property
    def is_world(self) -> bool:
        """Return whether the data is the embedded world's."""
        return self.set_name == "world"

    def opened(self, **changes: Any) -> Profile:
        """Return the profile, without the examples that came with it."""
        return open_profile(replace(self.profile, **changes)).without_examples()
