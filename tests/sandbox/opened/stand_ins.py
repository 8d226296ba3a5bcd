"""The classes of ``datetime`` and ``fractions`` are the real ones, and any attribute is read."""

from __future__ import annotations

from tests.sandbox.opened.attributes import READABLE, decode, encode, names
from viper.sandbox import standard
from viper.sandbox.standard import TypeToken

__all__ = ["READABLE", "decode", "encode", "names"]

for _members in (standard.DATETIME, standard.FRACTIONS):
    for _name, _token in _members.items():
        if type(_token) is TypeToken:
            _members[_name] = _token.matches  # type: ignore[assignment]
