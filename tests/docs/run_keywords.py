"""The stub ``run_keywords.pyi``, by which editors know the keywords of ``Reasoner.run``.

``python -m tests.docs.run_keywords`` writes it anew from the declarations of the settings.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import viper
from viper.reasoner import RunOptions
from viper.strategies.settings import shipped_settings

STUB = Path(viper.__file__).parent / "strategies" / "run_keywords.pyi"

_HEAD = '''"""The keywords of ``Reasoner.run``; written by ``python -m tests.docs.run_keywords``."""

# ruff: noqa: E501

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

class Keywords(TypedDict, total=False):
    """Keywords of a run. None keeps the profile's value; the default is that of a new profile."""

'''


def stub() -> str:
    """Return the text of the stub."""
    settings = shipped_settings()
    text = _HEAD
    for name, parameter in inspect.signature(RunOptions).parameters.items():
        if name not in settings:
            text += f"    {name}: {parameter.annotation}\n"
            continue
        text += f"    {name}: {_type_text(settings[name].type)} | None\n"
        text += f'    """{settings[name].help} Default: {settings[name].default!r}."""\n'
    return text


def _type_text(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
