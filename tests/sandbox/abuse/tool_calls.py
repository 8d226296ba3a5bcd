"""Calls that the parent must refuse; made by a child that no longer keeps to the API.

The child has broken out and speaks the wire as it should be spoken (``hostile_prelude``),
so what it asks for is checked by the parent alone. The query holds two pictures; attempts
of the guard "segments" are made in a query with a video.
"""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

_GROUP = "tool calls"

_CALLS = cases(
    _GROUP,
    {
        "arguments": {
            "picture of another query": "answer = call('pixels', ref('patch', 'image2', 0, 0, 9, 9))",
            "picture below zero": "answer = call('pixels', ref('image', 'image-1', 9, 9))",
            "picture by path": "answer = call('pixels', ref('image', '/etc/passwd', 9, 9))",
            "picture by climbing": "answer = call('pixels', ref('image', 'image0/../image9', 9, 9))",
            "picture by a number that is none": "answer = call('pixels', ref('image', 'image\\u00b2', 9, 9))",
            "picture by a huge number": "answer = call('pixels', ref('image', 'image' + '9' * 5000, 9, 9))",
            "picture with a number for a name": "answer = call('pixels', ref('image', 0, 9, 9))",
            "frame without a video": "answer = call('pixels', ref('patch', 'video0#0', 0, 0, 9, 9))",
            "reference without fields": "answer = call('pixels', ref('patch'))",
            "box with two borders": "answer = call('pixels', ref('patch', 'image0', 0, 0))",
            "box of texts": "answer = call('pixels', ref('patch', 'image0', 'a', 'b', 'c', 'd'))",
            "box that is no number": "answer = call('pixels', ref('patch', 'image0', float('nan'), 0, 9, 9))",
            "box between infinities": "answer = call('simple_query', ref('patch', 'image0', float('inf'), 0, float('-inf'), 9), 'x')",
            "box of negative size": "answer = call('simple_query', ref('patch', 'image0', 9, 9, 0, 0), 'x')",
            "box outside": "answer = call('compute_depth', ref('patch', 'image0', 1e300, 1e300, 2e300, 2e300))",
            "unknown kind": "answer = call('find', ref('mask', 'image0', 0, 0, 9, 9), 'x')",
            "video for a picture": "answer = call('find', ref('segment', 'image0', 0, 9), 'x')",
            "dict that looks like a reference": "answer = call('find', {'kind': 'patch', 'fields': ['image0', 0, 0, 9, 9]}, 'x')",
            "list that looks like a reference": "answer = call('find', [4, 'patch', 'image0', 0, 0, 9, 9], 'x')",
            "text that looks like a reference": "answer = call('find', \"Ref('patch', ('image0', 0, 0, 9, 9))\", 'x')",
            "reference in a list": "answer = call('find', [ref('image', 'image0', 9, 9)], 'x')",
            "number for a patch": "answer = call('find', 2 ** 9000, 'x')",
            "array for a patch": "import numpy as np\nanswer = call('pixels', np.zeros(4))",
            "name that is too long": "answer = call('find', ref('image', 'image0', 9, 9), 'x' * 5000)",
            "name that is blank": "answer = call('find', ref('image', 'image0', 9, 9), '   ')",
            "name that is no text": "answer = call('find', ref('image', 'image0', 9, 9), b'x')",
            "question that is a reference": "answer = call('simple_query', ref('image', 'image0', 9, 9), ref('image', 'image0', 9, 9))",
            "options that are a text": "answer = call('best_text_match', ref('image', 'image0', 9, 9), 'ab')",
            "options that are empty": "answer = call('best_text_match', ref('image', 'image0', 9, 9), [])",
            "option that is too long": "answer = call('best_text_match', ref('image', 'image0', 9, 9), ['x' * 5000])",
            "no patches to choose from": "answer = call('best_image_match', [], ['x'])",
            "dict of patches": "answer = call('best_image_match', {0: ref('image', 'image0', 9, 9)}, ['x'])",
            "foreign patch among good ones": "answer = call('best_image_match', [ref('image', 'image0', 9, 9), ref('image', 'image7', 9, 9)], ['x'])",
            "deep list for a patch": "x = []\nfor i in range(50):\n    x = [x]\nanswer = call('find', x, 'x')",
        },
        "signatures": {
            "another session": "answer = call('find', ref('image', 'image0', 9, 9), 'x', session=None)",
            "another toolbox": "answer = call('find', ref('image', 'image0', 9, 9), 'x', toolbox=None)",
            "dunder keyword": "answer = call('find', ref('image', 'image0', 9, 9), 'x', **{'__class__': 1})",
            "keyword given twice": "answer = call('find', ref('image', 'image0', 9, 9), 'x', patch=1)",
            "arguments missing": "answer = call('find')",
            "arguments left over": "answer = call('find', ref('image', 'image0', 9, 9), 'x', 1, 2, 3)",
        },
        "tool names": {
            "unknown tool": "answer = call('delete_files')",
            "no name": "answer = call('')",
            "name with a space": "answer = call('find ', ref('image', 'image0', 9, 9), 'x')",
            "name in capitals": "answer = call('FIND', ref('image', 'image0', 9, 9), 'x')",
            "private method of the session": "answer = call('_answer', 'find', [], {})",
            "call itself": "answer = call('call', 'find', [], {}, 1)",
            "region": "answer = call('region', ref('image', 'image0', 9, 9))",
            "threshold": "answer = call('threshold', 'detector.threshold')",
            "special method": "answer = call('__repr__')",
            "helper of the tools": "answer = call('_text', 'loot', 'name')",
            "dotted": "answer = call('toolbox.session')",
        },
        "segments": {
            "text for a frame": "answer = call('caption_video', ref('segment', 'video0', 'a', 'b'))",
            "frame that is no number": "answer = call('caption_video', ref('segment', 'video0', float('nan'), 2))",
            "endless segment": "answer = call('caption_video', ref('segment', 'video0', 0, float('inf')))",
            "segment without an end": "answer = call('caption_video', ref('segment', 'video0', 0))",
            "patch for a segment": "answer = call('caption_video', ref('patch', 'video0', 0, 0, 9, 9))",
            "frame outside": "answer = call('pixels', ref('patch', 'video0#99', 0, 0, 9, 9))",
            "frame below zero": "answer = call('pixels', ref('patch', 'video0#-1', 0, 0, 9, 9))",
            "whole video as a picture": "answer = call('pixels', ref('image', 'video0', 9, 9))",
            "video of another query": "answer = call('caption_video', ref('segment', 'video7', 0, 4))",
            "event that is too long": "answer = call('locate_event', ref('video', 'video0', 8, 9, 9), 'x' * 5000)",
            "picture with a tail": "answer = call('pixels', ref('patch', 'video0#1#2', 0, 0, 9, 9))",
        },
        # Nothing leaves the child: its own encoder refuses what the wire does not know.
        None: {
            "function": "answer = call('find', call)",
            "list that holds itself": "x = []\nx.append(x)\nanswer = call('find', x)",
            "huge text": "answer = call('find', 'x' * (1 << 20))",
        },
    },
    frozenset(["tool", "runtime"]),
)

_ANSWERS = cases(
    _GROUP,
    {
        # The child's own encoder is in the way here, and should be: a program that keeps to
        # the rules of the language must not look like one that has broken the protocol.
        None: {
            "answer with too many digits": "answer = 2 ** 50000",
            "argument with too many digits": "answer = call('find', 2 ** 50000)",
            "too many keys that are no texts": "answer = {(i,): 1 for i in range(2000)}",
            "reference with a list for a name": "answer = ref('patch', [1])",
            "reference with many fields": "answer = ref('patch', *range(20))",
        }
    },
    frozenset(["return_type", "output", "runtime"]),
)

CASES = _CALLS + _ANSWERS
