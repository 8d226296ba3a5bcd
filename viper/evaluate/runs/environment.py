"""Where a run is made: versions of what computes, the revision of the source tree, the platform."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = {
    "viper": "viper-reasoner",
    "torch": "torch",
    "transformers": "transformers",
    "open_clip": "open_clip_torch",
    "numpy": "numpy",
}
"""Name in the manifest to name of the distribution."""

_PACKAGE = Path(__file__).resolve().parents[2]
_GIT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Environment:
    """What a run was made with.

    Attributes:
        versions: of viper, python and the packages that compute; without those not installed.
        revision: git revision of the source tree, with ``+changes`` where files of the package
            differ from it; None outside a checkout.
        platform: operating system, kernel and processor in words.
    """

    versions: Mapping[str, str]
    revision: str | None
    platform: str

    @classmethod
    def here(cls) -> Environment:
        """This process's; imports none of the packages."""
        versions = {"python": platform.python_version()}
        for name, distribution in PACKAGES.items():
            try:
                versions[name] = version(distribution)
            except PackageNotFoundError:
                continue
        return cls(versions, revision(_PACKAGE), platform.platform())


def revision(package: Path) -> str | None:
    """The git revision of the checkout that a package's folder is the source of.

    None where there is no git, no checkout, or the package lies deeper in somebody else's
    (an environment inside a repository).
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != package.parent:
        return None
    head = _git(package, "rev-parse", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ".")
    return f"{head}+changes" if head and changes else head


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
