"""Every error that viper raises on purpose, each with a stable code.

Callers decide by class or by ``code``, never by reading the message. A message
says what was seen, what was expected and what to do next, in one line.
"""

from __future__ import annotations

from collections.abc import Iterable

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class ViperError(Exception):
    """Base of all errors meant for the user.

    Attributes:
        code: stable machine-readable name of the kind of error.
        exit_code: what the command line exits with when this ends it.
    """

    code = "viper"
    exit_code = EXIT_FAILED


class UsageError(ViperError):
    """The call itself is off: an unknown name, a bad option, an empty query."""

    code = "usage"
    exit_code = EXIT_USAGE


class PromptTooLongError(UsageError):
    """A prompt leaves no room for a completion in the model's context."""


class UnknownNameError(UsageError):
    """A profile, API, task, role or strategy that is not registered."""

    code = "unknown_name"

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(self.known) or 'none'}")


class MediaError(UsageError):
    """A picture or video that cannot be read: missing, truncated, empty, too large, not media."""

    code = "media"


class DataError(UsageError):
    """Files of a data set or of predictions are missing, or not in their official format."""

    code = "data"


class ProfileError(UsageError):
    """A profile file that does not parse or holds a wrong key or value."""

    code = "profile"


class MissingExtraError(UsageError):
    """An optional package is not installed; the message is the pip line."""

    code = "missing_extra"

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed; "
            f'run: pip install "viper-reasoner[{extra}]"'
        )


class SandboxUnavailableError(ViperError):
    """A protection layer is missing here and the weak sandbox was not asked for."""

    code = "sandbox_unavailable"


class SandboxHostError(ViperError):
    """The sandbox itself failed (no child could be started): retrying the program will not help."""

    code = "sandbox_host"


class ModelError(ViperError):
    """A model backend failed while answering."""

    code = "model"


class ToolError(ViperError):
    """A tool refused or failed one call of a program; the program sees it as an exception."""

    code = "tool"


class ScriptExhaustedError(ViperError):
    """A scripted LLM or tool was asked for more answers than its script holds."""

    code = "script_exhausted"


class StoreError(ViperError):
    """A run folder cannot be written or read: full disk, broken file, another writer."""

    code = "store"


class CancelledError(ViperError):
    """The caller cancelled the run."""

    code = "cancelled"
    exit_code = EXIT_INTERRUPTED
