"""What the API of pictures and videos lets a program reach; run under the API's own prelude."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "visual API",
    {
        "attributes": {
            "handle of a patch": "answer = str(ImagePatch(image)._handle)",
            "box of a patch": "answer = ImagePatch(image)._box",
            "client of a patch": "answer = str(ImagePatch(image)._call)",
            "client of a picture": "answer = str(image.call)",
            "name of a picture": "answer = image.id",
            "frame of a video by handle": "answer = str(video.frame_handle(0))",
            "frame of a segment by handle": "answer = str(VideoSegment(video).frame_handle(0).call)",
            "search of a segment": "answer = VideoSegment(video)._locate('x')",
            "patch anywhere": "answer = str(ImagePatch._at(image, -9, -9, 999, 999))",
            "segment anywhere": "answer = str(VideoSegment._at(video, (-9, 999)))",
            "strip of a patch": "answer = str(ImagePatch(image)._strip(left=9))",
            "getter of a property": "answer = str(ImagePatch.left.fget)",
            "method from its class": "answer = str(ImagePatch.find)",
            "globals of a method": "answer = len(ImagePatch(image).find.__globals__)",
            "function of a method": "answer = str(ImagePatch(image).find.__func__)",
            "object of a method": "answer = str(ImagePatch(image).find.__self__._handle)",
            "mark on a method": "answer = str(ImagePatch(image).find.__viper_method__)",
            "closure of a routine": "answer = str(best_image_match.__closure__)",
            "client in a closure": "answer = str(llm_query.__closure__[0].cell_contents)",
            "memory of pixels": "answer = str(ImagePatch(image).cropped_image.data)",
            "owner of pixels": "answer = str(ImagePatch(image).cropped_image.base)",
            "pixels as another type": "answer = ImagePatch(image).cropped_image.view('u4').shape",
            "pixels as a pickle": "answer = len(ImagePatch(image).cropped_image.dumps())",
            "handle by name": "answer = str(getattr(ImagePatch(image), '_handle'))",
            "handle by attrgetter": "from operator import attrgetter\nanswer = str(attrgetter('_handle.call')(ImagePatch(image)))",
            "handle asked for": "answer = 'loot' if hasattr(ImagePatch(image), '_handle') else 'held'",
            "frames of an error in the API": "try:\n    ImagePatch(5)\nexcept TypeError as e:\n    answer = str(e.__traceback__.tb_next.tb_frame.f_code)",
            "object of an error in the API": "try:\n    distance(1, ImagePatch(image))\nexcept AttributeError as e:\n    answer = str(e.obj)",
            "frames of the iterator": "answer = str(VideoSegment(video).frame_iterator().__reduce__()[1])[:30]",
            "registered routines": "answer = str(get_middle_patch.__builtins__['__import__']('viper.api.registry').api)",
        },
        "formatter": {
            "handle in a format": "answer = '{0._handle}'.format(ImagePatch(image))",
            "client in a format": "answer = '{0.find.__self__._handle.call}'.format(ImagePatch(image))",
            "client in a mapped format": "answer = '{a.call}'.format_map({'a': image})",
        },
        "types": {
            "type of a routine": "answer = str(type(distance))",
            "type of a method": "answer = str(type(ImagePatch(image).find))",
            "class of a class": "answer = str(ImagePatch.__class__)",
            "maker of pictures": "answer = str(type(image))",
            "picture made by hand": "answer = type(image)('image9', 9, 9, print).width",
            "video made by hand": "answer = video.__class__('video9', 9, 9, 9, print).num_frames",
            "picture with a list for a name": "answer = ImagePatch(type(image)([1], 9, 9, print)).width",
        },
        "classes": {
            "subclass of a patch": "class P(ImagePatch): pass\nanswer = str(P(image))",
            "subclass that overrides": """
class P(ImagePatch):
    def crop(self):
        return super().crop(0, 0, 1, 1)
answer = str(P(image).crop())
""",
            "subclass of a segment": "class S(VideoSegment): pass\nanswer = str(S(video))",
        },
        "statements": {
            "private parts by pattern": "match ImagePatch(image):\n    case ImagePatch(_box=b):\n        answer = b",
            "client by pattern": "match ImagePatch(image):\n    case ImagePatch(_handle=h):\n        answer = str(h)",
        },
        "writes": {
            "border moved": "p = ImagePatch(image)\np._box = (-9, -9, 999, 999)\nanswer = p.left",
            "border moved by setattr": "p = ImagePatch(image)\nsetattr(p, '_box', (-9, -9, 999, 999))\nanswer = p.left",
            "picture exchanged": "p = ImagePatch(image)\np._handle = video\nanswer = str(p == p)",
            "method of the class replaced": "ImagePatch.find = lambda self, name: ['loot']\nanswer = ImagePatch(image).find('x')",
            "property of the class replaced": "ImagePatch.left = 7\nanswer = ImagePatch(image).left",
            "constructor replaced": "def f(self, image): self._box = (0, 0, 7, 7)\nImagePatch.__init__ = f\nanswer = str(ImagePatch(1))",
        },
        "imports": {
            "PIL": "from PIL import Image\nanswer = str(Image)",
            "opened picture": "from PIL.Image import open as read\nanswer = str(read)",
            "PIL with a name": "import PIL.Image as Image\nanswer = str(Image.fromarray)",
            "runtime of the API": "from viper.api.runtime import ImageHandle\nanswer = ImageHandle('image9', 1, 1, None).width",
            "registry of the API": "import viper.api.registry as r\nanswer = str(r.REGISTRY)",
            "name that is not provided": "from viper.api import ImagePatch, REGISTRY\nanswer = str(REGISTRY)",
        },
        # The API's own checks of its arguments; they run on trusted code beside the program.
        None: {
            "patch of a look-alike": "class I:\n    def __init__(self):\n        self.id, self.width, self.height = 'image9', 9, 9\nanswer = str(ImagePatch(I()))",
            "patch of a false video": "class V:\n    def frame_handle(self, index):\n        return 'image9'\nanswer = str(ImagePatch(V()))",
            "borders without end": "answer = str(ImagePatch(image, 0, 0, float('inf'), 1))",
            "borders that are no numbers": "answer = str(ImagePatch(image, float('nan'), 0, 1, 1))",
            "borders that lie": "class N:\n    def __lt__(self, other):\n        return False\n    def __gt__(self, other):\n        return False\nanswer = str(ImagePatch(image, N(), 0, 1, 1))",
            "frame outside": "answer = str(VideoSegment(video).frame_from_index(10 ** 9))",
            "question that is no text": "answer = llm_query(b'x')",
            "options that never end": "import itertools\nanswer = select_answer('x', 'y', map(find, [1]))",
            "client by keyword": "answer = best_image_match([ImagePatch(image)], ['x'], call=lambda *a: 'loot')",
            "client by position": "answer = llm_query(lambda *a: 'loot', 'x')",
            "neighbours of a look-alike": "class P:\n    left = right = lower = upper = 1\n    def _whole_image(self):\n        return self\nanswer = str(get_patch_left_of(P()))",
            "deep copy of a patch": "from copy import deepcopy\nanswer = str(deepcopy(ImagePatch(image))._handle)",
            "dataclass of a picture": "from dataclasses import asdict\nanswer = str(asdict(image))",
        },
    },
)
