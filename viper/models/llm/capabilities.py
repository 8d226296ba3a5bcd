"""What an endpoint and its model take, from a table, corrected by the endpoint's refusals.

``endpoints.toml`` lists what is known beforehand. :meth:`Capabilities.corrected` reads a refusal:
the error names a field of the request, so the next one leaves it out, or writes the limit of tokens
under its other name. :class:`Corrections` keeps what was learned in a file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from viper.storage.files import replace_file

# Both names of the limit of tokens; OpenAI's newer models refuse the old one.
TOKEN_FIELDS = ("max_tokens", "max_completion_tokens")

# Fields that a request does not need. Without them an answer may differ, but is one.
OMITTABLE = ("temperature", "seed", "n", "stop")


@dataclass(frozen=True)
class Capabilities:
    """What one model at one endpoint takes.

    Attributes:
        token_field: name of the limit of tokens, one of :data:`TOKEN_FIELDS`.
        refused: fields of a request that it refuses.
        boxes: how it writes boxes, ``xy_1000``, ``yx_1000`` or ``pixels``; "" if that is unknown.
    """

    token_field: str = "max_tokens"
    refused: tuple[str, ...] = ()
    boxes: str = ""

    def corrected(
        self, sent: Iterable[str], param: str, message: str, code: str = ""
    ) -> Capabilities | None:
        """Return the capabilities that a refused request teaches, or None if it teaches nothing.

        Args:
            sent: names of the fields of the request.
            param: the field that the error names as its cause, or "".
            message: the server's words, in which quotes or the word *parameter* mark a field.
            code: the error's code. Only some codes and words say that a field is not taken; others
                refuse its value, which a profile must mend.
        """
        if not _says("unsupported", (code,), message):
            return None
        named = [name for name in sent if name == param.rpartition(".")[2] or _names(message, name)]
        if self.token_field in named:
            # Only models that reason refuse the old name, and these refuse both fields as well.
            more = ("temperature", "stop") if self.token_field == "max_tokens" else ()
            (other,) = {*TOKEN_FIELDS} - {self.token_field}
            refused = tuple(dict.fromkeys((*self.refused, *more)))
            return replace(self, token_field=other, refused=refused)
        refused = tuple(name for name in named if name in OMITTABLE)
        return replace(self, refused=(*self.refused, *refused)) if refused else None


def _names(message: str, field: str) -> bool:
    quoted = rf"['\"`]{field}\\?['\"`]|\bparameters?:? {field}\b"
    return re.search(quoted, message) is not None


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files("viper.models.llm").joinpath("endpoints.toml").read_text("utf-8"))


def capabilities_of(base_url: str, model: str) -> Capabilities:
    """Return what is known beforehand of a model at an endpoint."""
    host, known = urlsplit(base_url).hostname or "", dict[str, Any]()
    for rule in _table()["endpoint"]:
        fits = fnmatchcase(host, rule.get("host", "*"))
        if fits and fnmatchcase(model.lower(), rule.get("model", "*")):
            values = {name: value for name, value in rule.items() if name not in ("host", "model")}
            known |= values | {"refused": (*known.get("refused", ()), *values.get("refused", ()))}
    return Capabilities(**known)


def is_too_long(codes: Iterable[Any], message: str) -> bool:
    """Return whether an error says that the prompt is longer than the model's context.

    Args:
        codes: the error's code, type and the like.
        message: the server's words.
    """
    return _says("too_long", codes, message)


def _says(what: str, codes: Iterable[Any], message: str) -> bool:
    known, text = _table()[what], message.lower()
    return bool({*known["codes"]} & {str(code) for code in codes}) or any(
        words in text for words in known["words"]
    )


class Corrections:
    """What refusals taught about models at endpoints, in a JSON file that any process may write.

    A file that cannot be read counts as empty: the next refusal teaches the same again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str, default: Capabilities) -> Capabilities:
        """Return what was learned about a model at an endpoint over what is known beforehand."""
        stored = self._read().get(key)
        if not isinstance(stored, Mapping):
            return default
        refused = stored.get("refused")
        refused = refused if isinstance(refused, list) else []
        token_field = stored.get("token_field")
        return replace(
            default,
            refused=tuple(name for name in OMITTABLE if name in (*default.refused, *refused)),
            token_field=token_field if token_field in TOKEN_FIELDS else default.token_field,
        )

    def put(self, key: str, learned: Capabilities) -> None:
        """Keep what was learned; where nothing can be kept, the next process learns it again."""
        with suppress(OSError):
            replace_file(self._path, json.dumps({**self._read(), key: asdict(learned)}, indent=1))

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, ValueError, RecursionError):
            stored = json.loads(self._path.read_text("utf-8"))
            if isinstance(stored, dict):
                return stored
        return {}
