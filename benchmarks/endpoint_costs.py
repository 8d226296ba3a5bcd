"""What questions cost at an endpoint that is played by the tests' server.

    python -m benchmarks.endpoint_costs bytes FOLDER   # of photographs
    python -m benchmarks.endpoint_costs wait

``bytes`` asks a question of four requests about each JPEG of a folder (writer, ``find``,
``verify_property``, ``simple_query``) and prints the bytes of the pictures in them, as sent in
base64. ``wait`` runs a program that asks 20 found objects one question each, which takes .2 s, and
prints the seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.endpoint.model import KEY, Model, fenced
from tests.models.llm.openai_server import OpenAIServer
from viper import Reasoner, load_profile

FOUR = fenced("""def execute_command(image):
    image_patch = ImagePatch(image)
    things = image_patch.find("person")
    if not things:
        return image_patch.simple_query("what is this?")
    if things[0].verify_property("person", "red"):
        return "red"
    return things[0].simple_query("what color is it?")""")
LOOP = fenced("""def execute_command(image):
    coins = ImagePatch(image).find("coin")
    names = [coin.simple_query("what is it?") for coin in coins]
    return str(len(names))""")
PERSON = json.dumps([{"label": "person", "bbox_2d": [200, 200, 700, 800]}])
COINS = json.dumps(
    [{"label": "coin", "bbox_2d": [40 * n, 0, 40 * n + 35, 1000 - n]} for n in range(20)]
)


def slow(request: Any) -> str:
    time.sleep(0.2)
    return "a coin"


def sent(server: OpenAIServer) -> int:
    parts = (part for request in server.received for part in request.parts)
    return sum(len(part["image_url"]["url"]) for part in parts if part["type"] == "image_url")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("bytes", "wait"))
    parser.add_argument("folder", type=Path, nargs="?")
    given = parser.parse_args()
    if given.what == "bytes" and given.folder is None:
        parser.error("bytes needs a folder of photographs")
    if given.what == "bytes":
        model = Model(program=FOUR, boxes=PERSON, yes_no="no", vqa="blue")
    else:
        model = Model(program=LOOP, boxes=COINS, vqa=slow)
    server = OpenAIServer(otherwise=model)
    home = tempfile.mkdtemp()
    os.environ |= {"OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1", "VIPER_HOME": home}
    os.environ["OPENAI_BASE_URL"] = server.url
    with Reasoner(load_profile("endpoint")) as reasoner:
        if given.what == "wait":
            reasoner.components.load()
            started = time.perf_counter()
            reasoner.run(np.full((400, 900, 3), 90, np.uint8), "how many coins?", trials=1)
            seconds = time.perf_counter() - started
            print(f"{seconds:.2f} s, at most {server.peak} requests at the same time")
        else:
            sizes = []
            for path in sorted(given.folder.rglob("*.jpg"))[:30]:
                server.received.clear()
                reasoner.run(path, "what is the man wearing?", trials=1)
                sizes.append(sent(server) / 1e6)
            mean = statistics.mean(sizes)
            print(f"{len(sizes)} photographs: {mean:.2f} MB a question, at most {max(sizes):.2f}")
    server.close()


if __name__ == "__main__":
    main()
