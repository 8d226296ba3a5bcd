"""Every error that viper raises on purpose, each with a stable code.

Callers decide by class or by ``code``, never by reading the message. A message is one line with the
value seen, the value expected and the next step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Locks of files, limits of processes and forks are those of POSIX.
NOT_ON_WINDOWS = "Windows is not supported; install viper in WSL (wsl --install) and run it there"

# As shells and click use them: 2 for a wrong call, 130 for 128 + SIGINT.
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


# What ``ast.parse`` raises about a text; the last two if it is nested too deeply.
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


class ViperError(Exception):
    """Base of all errors meant for the user.

    Args:
        advice: what the people who run viper can change, such as a setting. The text of the error
            ends with it; a model that reads what went wrong gets ``problem`` alone.

    Attributes:
        code: stable machine-readable name of the kind of error.
        exit_code: exit code of the command line when this error ends it.
    """

    code = "viper"
    exit_code = EXIT_FAILED

    def __init__(self, problem: str = "", *, advice: str | None = None) -> None:
        self.problem, self.advice = problem, advice
        super().__init__(f"{problem}; {advice}" if advice else problem)


class UsageError(ViperError):
    """The call itself is wrong: an unknown name, a bad option, an empty query."""

    code = "usage"
    exit_code = EXIT_USAGE


class PromptTooLongError(UsageError):
    """A prompt leaves no room for a completion in the model's context."""


class UnknownNameError(UsageError):
    """The profile, API, task, role or strategy is not registered."""

    code = "unknown_name"

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches  # only errors need it

        self.kind, self.name, self.known = kind, name, sorted(known)
        near = get_close_matches(name, self.known, 1)
        super().__init__(
            f"unknown {kind} {name!r}; known: {', '.join(self.known) or 'none'}"
            + (f"; did you mean {near[0]}?" if near else "")
        )


class MediaError(UsageError):
    """The picture or video cannot be read: missing, truncated, empty, too large, or not media."""

    code = "media"


class DataError(UsageError):
    """Files of a data set or of predictions are missing, or not in their official format."""

    code = "data"


class ProfileError(UsageError):
    """The profile file does not parse, or holds a wrong key or value."""

    code = "profile"


# Extra of each optional package, both by the names that ``import`` and ``pip`` take; ``setup.cfg``
# declares them. A package that several extras bring stands under the one that needs it most, and
# one that every installation brings is absent.
EXTRA_OF: Mapping[str, str] = {
    package: extra
    for extra, packages in {
        "local": "torch torchvision transformers open_clip timm diffusers peft tokenizers "
        "safetensors gguf huggingface_hub",
        "local,embedded": "viper_reasoner_weights",
        "large": "accelerate bitsandbytes num2words",
        "vllm": "vllm",
        "pixels": "cv2",
        "video": "av",
        "ocr": "rapidocr",
        "photo": "onnxruntime",
        "documents": "pypdfium2",
        "search": "tantivy usearch",
        "mcp": "mcp",
        "wikipedia": "mwparserfromhell defusedxml",
        "evaluate": "scipy pycocotools matplotlib",
        "data": "datasets",
        "emoji": "augly",
        "ray": "ray",
        "s3": "s3fs",
        "gs": "gcsfs",
        "demo": "gradio",
        "tensorboard": "tensorboard",
        "mlflow": "mlflow",
        "wandb": "wandb",
        "inspect": "inspect_ai",
        "openenv": "openenv",
    }.items()
    for package in packages.split()
}


class MissingExtraError(UsageError):
    """A package is not installed; the message is the pip command.

    Args:
        package: the name that ``import`` takes.
    """

    code = "missing_extra"

    def __init__(self, package: str, needed_for: str) -> None:
        self.package, self.extra = package, EXTRA_OF.get(package, "")
        wanted = f"viper-reasoner[{self.extra}]" if self.extra else "viper-reasoner"
        super().__init__(
            f"{needed_for} needs the package {package!r}, which is not installed; "
            f'run: pip install "{wanted}"'
        )


class SandboxUnavailableError(ViperError):
    """A protection layer is missing on this machine and the weak sandbox was not requested."""

    code = "sandbox_unavailable"


class SandboxHostError(ViperError):
    """The sandbox itself failed (no child could be started); retrying the program will not help."""

    code = "sandbox_host"


class ModelError(ViperError):
    """A model backend failed while answering."""

    code = "model"


class UnavailableError(ModelError):
    """An endpoint kept failing in a way that may pass: overload, lost connections, time-outs."""


class MemoryFullError(ModelError):
    """A device or the machine has no memory left for a model.

    Attributes:
        final: True if unloading other models could not help.
    """

    code = "memory_full"

    def __init__(self, message: str, final: bool = False) -> None:
        self.final = final
        super().__init__(message)


class ToolError(ViperError):
    """A tool refused or failed one call of a program; the program sees an exception."""

    code = "tool"


class ScriptExhaustedError(ViperError):
    """A scripted LLM or tool received more requests than its script has replies."""

    code = "script_exhausted"


class StoreError(ViperError):
    """A run folder cannot be written or read: full disk, damaged file, another writer."""

    code = "store"


class CancelledError(ViperError):
    """The caller cancelled the run."""

    code = "cancelled"
    exit_code = EXIT_INTERRUPTED
