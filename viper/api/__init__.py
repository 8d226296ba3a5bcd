"""The API of programs: patches, segments, routines, and the text that describes them."""

from viper.api.image_patch import ImagePatch
from viper.api.registry import REGISTRY, routine
from viper.api.runtime import ImageHandle, VideoHandle
from viper.api.sets import ApiEntry, ApiSet, api_set
from viper.api.spec import api_hash, render
from viper.api.video_segment import VideoSegment

__all__ = [
    "REGISTRY",
    "ApiEntry",
    "ApiSet",
    "ImageHandle",
    "ImagePatch",
    "VideoHandle",
    "VideoSegment",
    "api_hash",
    "api_set",
    "render",
    "routine",
]
