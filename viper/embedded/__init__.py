"""The embedded world: everything that only the small models of the package know or need.

``*.toml`` are its profiles, ``weights`` the models, ``domains`` their words and the look of their
pictures, ``banks`` the examples for the writer, ``media`` the pictures of the demo. The code is the
one backend that serves no other model, :mod:`viper.embedded.video_events`.
"""

from __future__ import annotations

from pathlib import Path

EMBEDDED = Path(__file__).parent
WEIGHTS = EMBEDDED / "weights"
BANKS = EMBEDDED / "banks"
DOMAINS = EMBEDDED / "domains"
MEDIA = EMBEDDED / "media"
