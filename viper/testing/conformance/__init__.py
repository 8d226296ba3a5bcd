"""Suites that check a backend against its role: call one in a test of the backend.

``check_detector(backend)`` raises an AssertionError that names the first broken rule, and otherwise
returns nothing. The rules are those of :mod:`viper.models.vision.roles`. The quality of answers is
not checked.
"""

from viper.testing.conformance.language import check_llm as check_llm
from viper.testing.conformance.language import check_text as check_text
from viper.testing.conformance.language import check_video as check_video
from viper.testing.conformance.pictures import check_depth as check_depth
from viper.testing.conformance.pictures import check_inpainter as check_inpainter
from viper.testing.conformance.pictures import check_matcher as check_matcher
from viper.testing.conformance.pictures import check_vqa as check_vqa
from viper.testing.conformance.regions import KnownObject as KnownObject
from viper.testing.conformance.regions import KnownRegion as KnownRegion
from viper.testing.conformance.regions import check_detector as check_detector
from viper.testing.conformance.regions import check_faces as check_faces
from viper.testing.conformance.regions import check_segmenter as check_segmenter
from viper.testing.conformance.rules import sample_pictures as sample_pictures
