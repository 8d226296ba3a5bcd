"""Installs the wheel without extras in a fresh environment, and checks what works with it; then
with the extra ``photo``, for photographs without torch.

``python tests/install/light.py`` prints each check, the size and the seconds; the exit code is 1 if
a check fails. It needs the development environment, for the server that plays a language model, and
a package index or pip's cache.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.endpoint.model import KEY, Model, fenced, written  # noqa: E402
from tests.models.llm.openai_server import OpenAIServer  # noqa: E402
from tests.models.vision.onnx_graphs import NAMES, Graph, plain  # noqa: E402

# A container image that holds the package should stay below half a gigabyte.
MOST_MB = 250

# With onnxruntime, OpenCV and the models of RapidOCR; torch alone has more.
MOST_PHOTO_MB = 700

# With the packages in pip's cache. Longer means that something is compiled.
MOST_SECONDS = 60

WAIT_S = 60

# What a user of an endpoint must not have to install.
HEAVY = ("torch", "transformers", "diffusers", "scipy", "ray", "gradio", "cv2", "onnxruntime")

FOUND = 'ImagePatch(image).find("cube")'
EDIT = """OBJ0=LOC(image=IMAGE,object='cube')
IMAGE0=COLORPOP(image=IMAGE,object=OBJ0)
FINAL_RESULT=RESULT(var=IMAGE0)"""

# Query, line of the program and answer of each task; None stands for any answer. Edits are below.
TASKS: Mapping[str, tuple[str, str, Any]] = {
    "ground": ("the red cube", f"return {FOUND}[0]", [0.0, 0.0, 30.0, 40.0]),
    "question": (
        "what is the cube?",
        'return ImagePatch(image).simple_query("what is the cube?")',
        "A cube",
    ),
    "choice": (
        "what is it?",
        "return select_answer('a thing', question, possible_answers)",
        "ball",
    ),
    "statement": ("the cube is red", f'return {FOUND}[0].verify_property("cube", "red")', True),
    "tag": ("all cubes", f'return [(patch, "cube") for patch in {FOUND}]', None),
}


class Failed(Exception):
    """A check did not hold."""


class Light:
    """The environment with the wheel, and the server that its profile ``endpoint`` asks."""

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.folder, self.bin, self.extra = folder, folder / "venv" / "bin", extra
        self.model = Model()
        self.server = OpenAIServer(otherwise=self.model)
        self.picture = written(folder / "small.png", (40, 60))
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment = {
            **kept,
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": self.server.url,
            "NO_PROXY": "127.0.0.1",
            "VIPER_HOME": str(folder / "home"),
        }

    def install(self) -> tuple[float, float]:
        """Return the megabytes of the environment, and the seconds that pip took."""
        build = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(self.folder), str(ROOT)]
        checked([sys.executable, "-m", "pip", "wheel", "--quiet", *build])
        checked([sys.executable, "-m", "venv", str(self.folder / "venv")])
        wheel = next(self.folder.glob("*.whl"))
        pinned = ["--quiet", "--constraint", str(ROOT / "constraints.txt"), f"{wheel}{self.extra}"]
        started = time.monotonic()
        checked([str(self.bin / "python"), "-m", "pip", "install", *pinned])
        seconds = time.monotonic() - started
        files = (path for path in (self.folder / "venv").rglob("*") if not path.is_symlink())
        return sum(path.stat().st_size for path in files if path.is_file()) / 1e6, seconds

    def viper(self, *arguments: str, code: int = 0) -> str:
        """Return what a command prints; on standard error if it should fail."""
        done = subprocess.run(
            [str(self.bin / "viper"), *arguments],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=WAIT_S,
            check=False,
        )  # fmt: skip
        if done.returncode != code:
            raise Failed(
                f"exit code {done.returncode}, not {code}: {(done.stdout + done.stderr)[:1500]}"
            )
        return done.stderr if code else done.stdout

    @contextmanager
    def started(self, *arguments: str) -> Iterator[str]:
        """Start a server; yield the address that it prints."""
        process = subprocess.Popen(
            [str(self.bin / "viper"), *arguments],
            cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            printed = ""
            for line in process.stdout:
                printed += line
                if address := re.search(r"http://127\.0\.0\.1:\d+\S*", line):
                    yield address[0]
                    return
            raise Failed(f"no address: {printed[-2000:]}")
        finally:
            process.terminate()
            process.wait(WAIT_S)


def checked(command: list[str]) -> str:
    # With PYTHONPATH, pip and Python would see the package in this tree.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(done.stderr[-2000:])
    return done.stdout


def nothing_heavy_is_installed(light: Light) -> None:
    for name in HEAVY:
        look = (
            f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is not None)"
        )
        checked([str(light.bin / "python"), "-c", look])


def help_is_printed(light: Light) -> None:
    if "viper" not in light.viper("--help"):
        raise Failed("no help")


def an_endpoint_answers_every_task(light: Light) -> None:
    def answer_to(query: str, task: str, *more: str) -> Any:
        arguments = ("--task", task, "--profile", "endpoint", "--json", *more)
        return json.loads(light.viper("run", str(light.picture), query, *arguments))["answer"]

    for task, (query, line, expected) in TASKS.items():
        parameters = "image, question, possible_answers"
        light.model.replies["program"] = fenced(f"def execute_command({parameters}):\n    {line}")
        answer = answer_to(query, task, *(["--options", "cube; ball"] if task == "choice" else []))
        if answer != expected if expected is not None else not answer:
            raise Failed(f"{task}: {answer!r}")
    light.model.replies["program"] = fenced(EDIT)
    answer_to("color the cube alone", "edit", "--api", "visprog", "--save", "edited.png")
    if not (light.folder / "edited.png").is_file():
        raise Failed("no edited picture")


def a_program_runs(light: Light) -> None:
    (light.folder / "count.py").write_text(f"answer = len({FOUND})\n")
    arguments = ("count.py", str(light.picture), "--profile", "endpoint")
    if light.viper("exec", *arguments).split()[0] != "1":
        raise Failed("the program does not count")


def a_service_answers_its_client(light: Light) -> None:
    light.model.replies["program"] = fenced(f"def execute_command(image):\n    return len({FOUND})")
    with light.started("serve", "--port", "0", "--profile", "endpoint") as address:
        answer = light.viper("run", str(light.picture), "how many cubes?", "--server", address)
    if answer.split()[0] != "1":
        raise Failed(answer)


def a_stored_run_is_shown(light: Light) -> None:
    run = ROOT / "tests" / "storage" / "stored" / "run-program"
    with light.started("view", str(run), "--port", "0", "--no-open") as address:
        page = urllib.request.urlopen(address, timeout=WAIT_S).read().decode()
    if "run-program" not in page:
        raise Failed(page[:500])


def an_agent_reads_the_api(light: Light) -> None:
    messages = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "light", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    ]  # fmt: skip
    process = subprocess.Popen(
        [str(light.bin / "viper"), "mcp", "--profile", "endpoint", "--media-root", "."],
        cwd=light.folder, env=light.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            if "id" in message:
                reply = json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
    if not reply["result"]["tools"]:
        raise Failed(str(reply))


def the_sandbox_runs_alone(light: Light) -> None:
    code = "from viper.sandbox import Sandbox; print(Sandbox().run('answer = 6 * 7').value)"
    if checked([str(light.bin / "python"), "-c", code]).split() != ["42"]:
        raise Failed("no answer")


def a_missing_extra_is_one_line(light: Light) -> None:
    line = light.viper("run", str(light.picture), "what is this?", "--profile", "embedded", code=2)
    if line.count("\n") != 1 or 'pip install "viper-reasoner[local' not in line:
        raise Failed(line)


def photo_lite_runs_without_torch(light: Light) -> None:
    for name in ("torch", "transformers", "scipy"):
        look = f"import importlib.util, sys; sys.exit(bool(importlib.util.find_spec({name!r})))"
        checked([str(light.bin / "python"), "-c", look])
    light.environment.pop("OPENAI_API_KEY")  # programs of the user need no writer
    light.environment.pop("OPENAI_BASE_URL")
    Image.fromarray(plain()).save(light.folder / "plain.png")
    names = (("names", str(dict(enumerate(NAMES)))),)
    Graph("yolo_columns", times=(1.0,) * 3, metadata=names).write(light.folder / "tiny.onnx")
    fields = ("--schema", "total:money")
    light.viper("run", "plain.png", *fields, "--profile", "photo-lite")  # no detector yet
    (light.folder / "cats.py").write_text(
        "patch = ImagePatch(image)\n"
        "cat = patch.find('orange cats')[0]\n"
        "faces, words = patch.find('faces'), ocr(patch)\n"
        "answer = f\"{measure(cat)['color']} {len(faces)} {words!r}\"\n"
    )
    printed = light.viper("setup", "model", "tiny.onnx", "--picture", "plain.png")
    if "found    cat 0.80 at (16, 8, 80, 72)" not in printed:
        raise Failed(printed)
    light.viper("run", "plain.png", *fields)
    marked = light.viper("run", "plain.png", "how many of these?", "--like", "16,8,80,72")
    if marked.strip() != "1":
        raise Failed(marked)
    answer = light.viper("exec", "cats.py", "plain.png", "--profile", "photo-lite").strip()
    if answer != "orange 0 ''":
        raise Failed(answer)
    (light.folder / "many").mkdir()
    for number in range(2):
        Image.fromarray(plain()).save(light.folder / "many" / f"{number}.png")
    table = ("--out", "cats.csv", "--profile", "photo-lite")
    light.viper("apply", "cats.py", "many", *table)
    light.viper("apply", "extract", "many", "--out", "totals.csv", *fields)
    if (light.folder / "cats.csv").read_text().count("orange 0") != 2:
        raise Failed((light.folder / "cats.csv").read_text())
    (light.folder / "dogs.py").write_text("answer = ImagePatch(image).exists('dog')\n")
    arguments = ("exec", "dogs.py", "plain.png", "--profile", "photo-lite")
    line = light.viper(*arguments, code=1)
    if "Traceback" in line:
        raise Failed(line)


PHOTO_CHECKS = (photo_lite_runs_without_torch,)

CHECKS = (
    nothing_heavy_is_installed,
    help_is_printed,
    an_endpoint_answers_every_task,
    a_program_runs,
    a_service_answers_its_client,
    a_stored_run_is_shown,
    an_agent_reads_the_api,
    the_sandbox_runs_alone,
    a_missing_extra_is_one_line,
)


def checked_environment(
    light: Light, most_mb: int, checks: Sequence[Callable[[Light], None]]
) -> int:
    """Install, run the checks, print each; return how many failed."""
    megabytes, seconds = light.install()
    print(f"{megabytes:.0f} MB of at most {most_mb}, installed in {seconds:.0f} s {light.extra}")
    failures = int(megabytes > most_mb)
    if seconds > MOST_SECONDS:  # a busy machine or an empty cache is no fault of the package
        print(f"  slower than {MOST_SECONDS} s")
    for check in checks:
        started = time.monotonic()
        try:
            check(light)
            outcome = "holds"
        except (Failed, subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            outcome, failures = f"FAILS: {error}", failures + 1
        name = check.__name__.replace("_", " ")
        print(f"{name:<36} {outcome} ({time.monotonic() - started:.1f} s)", flush=True)
    light.server.close()
    return failures


def main() -> int:
    with TemporaryDirectory() as folder:
        failures = checked_environment(Light(Path(folder)), MOST_MB, CHECKS)
    with TemporaryDirectory() as folder:
        light = Light(Path(folder), "[photo]")
        failures += checked_environment(light, MOST_PHOTO_MB, PHOTO_CHECKS)
    print(f"{len(CHECKS) + len(PHOTO_CHECKS) + 2 - failures} passed, {failures} failed")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
