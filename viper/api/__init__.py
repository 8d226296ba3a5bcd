"""The API of programs: patches, segments, routines, and the text that describes them."""

from viper.api.image_patch import ImagePatch as ImagePatch
from viper.api.registry import REGISTRY as REGISTRY
from viper.api.registry import routine as routine
from viper.api.runtime import ImageHandle as ImageHandle
from viper.api.runtime import VideoHandle as VideoHandle
from viper.api.sets import ApiEntry as ApiEntry
from viper.api.sets import ApiSet as ApiSet
from viper.api.sets import api_set as api_set
from viper.api.spec import api_hash as api_hash
from viper.api.spec import render as render
from viper.api.video_segment import VideoSegment as VideoSegment
