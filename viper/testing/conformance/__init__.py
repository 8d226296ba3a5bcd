"""Suites that check a backend against its role: call one in a test of the backend.

``check_detector(backend)`` raises an AssertionError that names the first broken rule, and otherwise
returns nothing. The rules are those of :mod:`viper.models.vision.roles`. The quality of answers is
not checked.
"""

from viper.testing.conformance.language import check_llm, check_text, check_video
from viper.testing.conformance.pictures import (
    check_depth,
    check_inpainter,
    check_matcher,
    check_vqa,
)
from viper.testing.conformance.regions import (
    KnownObject,
    KnownRegion,
    check_detector,
    check_faces,
    check_segmenter,
)
from viper.testing.conformance.rules import sample_pictures

__all__ = [
    "KnownObject",
    "KnownRegion",
    "check_depth",
    "check_detector",
    "check_faces",
    "check_inpainter",
    "check_llm",
    "check_matcher",
    "check_segmenter",
    "check_text",
    "check_video",
    "check_vqa",
    "sample_pictures",
]
