"""Suites that say whether a backend keeps to its role: call one in a test of the backend.

``check_detector(backend)`` returns nothing when all is well and raises an
AssertionError that names the first broken rule. The rules are those of
:mod:`viper.tools.roles`; whether answers are any good is not looked at.
"""

from viper.testing.conformance.depth import check_depth
from viper.testing.conformance.detector import KnownObject, check_detector
from viper.testing.conformance.faces import check_faces
from viper.testing.conformance.inpainter import check_inpainter
from viper.testing.conformance.llm import check_llm
from viper.testing.conformance.matcher import check_matcher
from viper.testing.conformance.rules import sample_pictures
from viper.testing.conformance.segmenter import KnownRegion, check_segmenter
from viper.testing.conformance.text import check_text
from viper.testing.conformance.video import check_video
from viper.testing.conformance.vqa import check_vqa

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
