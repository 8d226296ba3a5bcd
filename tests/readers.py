"""Every reader of a file that somebody else may have made, with a valid file for it.

``tests/test_readers.py`` and ``benchmarks/readers.py`` damage the files and read them again.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.models.vision.onnx_graphs import LAYOUTS, NAMES, SIDE, Graph
from tests.test_record import TRACE
from tests.tuning.agent.turns import COUNT, DONE, FIND, STORE, workflow
from viper.ace.bank import read_bank, write_bank
from viper.ace.generate import read_description, read_query_file
from viper.data.own import OwnFile
from viper.data.plain_pickle import load_plain
from viper.data.sample import DatasetSpec, Sample
from viper.data.source import SourceFile
from viper.embedded import BANKS, DOMAINS
from viper.evaluate.answers_file import AnswersFile
from viper.evaluate.intervals import Estimate
from viper.evaluate.predictions import read_predictions
from viper.evaluate.runs.feedback import Feedback, add_feedback, read_feedback
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.jobs.job import Job, JobRecord, JudgedCase, KeptProgram, read_job
from viper.jobs.likeness import Likeness
from viper.models.domain import Look
from viper.models.llm.capabilities import Capabilities, Corrections
from viper.models.media import media_from, write_mp4
from viper.models.vision.detector_onnx import OnnxDetector
from viper.models.vision.onnx_layout import Layout
from viper.profiles import load_profile
from viper.profiles.exported import ExportedProgram
from viper.profiles.files import read_profile, shipped_profiles
from viper.record import result_record, trace_from_record
from viper.schema import to_json
from viper.search.documents import documents
from viper.storage.json_lines import append_line, dumps
from viper.strategies.demonstration_pool import DemonstrationPool, PoolExample
from viper.strategies.seek import graph
from viper.strategies.seek.graph import load_route
from viper.tuning.agent.flags import read_labels
from viper.tuning.agent.workflows import read_workflows
from viper.web.viewer.index import RowFilter, ViewerIndex

GRAPHS = Path(graph.__file__).parent / "graphs"

# Name of a reader: the name of its file, a function that returns the bytes of a valid one, and a
# function that reads the file.
Reader = tuple[str, Callable[[Path], bytes], Callable[[Path], Any]]


_LABEL = '{"media":["a.png"],"query":"q","task":"question","answer":"x"}\n'


def a_record() -> JobRecord:
    """What a fit leaves in ``job.json``."""
    kept = KeptProgram("def execute_command(image):\n    return 'x'\n", {}, 1.0, "written", (), 1.0)
    return JobRecord(
        query="q",
        task="question",
        kind="image",
        kept=(kept,),
        weights={"intercept": 1.0, "agreement": 1.0},
        estimate=Estimate(1.0, 8, 0.7, 1.0),
        baselines={"commonest answer": Estimate(0.5, 8, 0.2, 0.8)},
        labelled=8,
        judged=(JudgedCase("c0", "a.png", "x", "x", True, 0.9, 1.0),),
        likeness=Likeness(((0.1,) * 48,), 0.2),
    )


def _job_labels(folder: Path) -> None:
    with Job(folder) as job:
        job.labels()


def _picture(kind: str, **options: Any) -> Callable[[Path], bytes]:
    def made(_: Path) -> bytes:
        shades = np.random.default_rng(0).integers(0, 255, (24, 32, 3), np.uint8)
        first, second = Image.fromarray(shades), Image.fromarray(255 - shades)
        content = io.BytesIO()
        if kind == "HEIF":
            import pillow_heif

            pillow_heif.register_heif_opener()
        more = {"save_all": True, "append_images": [second]} if options.get("moves") else {}
        first.save(content, kind, **more)
        return content.getvalue()

    return made


def _video(folder: Path) -> bytes:
    frames = np.random.default_rng(0).integers(0, 255, (4, 32, 48, 3), np.uint8)
    write_mp4(folder / "made.mp4", frames)
    return (folder / "made.mp4").read_bytes()


def _bytes(text: str) -> Callable[[Path], bytes]:
    return lambda _: text.encode()


def _stored(name: str) -> Callable[[Path], bytes]:
    """A file of a stored run."""

    def made(folder: Path) -> bytes:
        from tests.evaluate.run_samples import a_manifest, a_row

        with RunStore.create(folder / "made", a_manifest()) as store:
            store.add(0, a_row(0), TRACE)
        add_feedback(folder / "made", Feedback("s00000", comment="seen"))
        return (folder / "made" / name).read_bytes()

    return made


def _run(name: str) -> Callable[[Path], Any]:
    """Read a run of which one file is damaged."""

    def read(path: Path) -> None:
        run = path.parent / "made"
        shutil.copy(path, run / name)
        for rest in ("samples.db-wal", "samples.db-shm"):
            (run / rest).unlink(missing_ok=True)
        with RunStore.read(run) as store:
            list(store.rows())
            store.results()
            index = ViewerIndex([store])
            index.find(RowFilter(text="cube"))
            assert index.facets.rows >= 0
            store.trace("s00000", 0)
            store.sessions()
        read_feedback(run)

    return read


def _bank(folder: Path) -> bytes:
    examples = read_bank(next(iter(sorted(BANKS.glob("*.jsonl"))))).items[:3]
    write_bank(folder / "made.jsonl", examples)
    return (folder / "made.jsonl").read_bytes()


def _corrections(folder: Path) -> bytes:
    Corrections(folder / "endpoints.json").put("m@host", Capabilities(refused=("seed",)))
    return (folder / "endpoints.json").read_bytes()


def _read_corrections(path: Path) -> None:
    Corrections(path).get("m@host", Capabilities())


def _pool(folder: Path) -> bytes:
    pool = DemonstrationPool(folder / "made")
    examples = read_bank(next(iter(sorted(BANKS.glob("*.jsonl"))))).items[:3]
    pool.add(
        [
            PoolExample(f"{number:016x}", replace(each, part="program"))
            for number, each in enumerate(examples)
        ]
    )
    pool.store.close()
    return (folder / "made" / "index.db").read_bytes()


def _read_pool(path: Path) -> None:
    shutil.copy(path, path.parent / "made" / "index.db")
    pool = DemonstrationPool(path.parent / "made")
    try:
        pool.items()
    finally:
        pool.store.close()


def _script(_: Path) -> bytes:
    profile = to_json(load_profile("embedded").document)
    exported = ExportedProgram(
        query="q", task="question", program="answer = 1", api="abstract", profile=profile
    )
    return exported.script("answer.py").encode()


def _read_script(path: Path) -> None:
    exported = ExportedProgram.read(path.read_bytes().decode("utf-8", "replace"))
    if exported is not None:
        exported.pinned_profile()


def _texts(path: Path) -> None:
    for _ in documents(path):
        pass


def _table(folder: Path) -> bytes:
    path = folder / "made.csv"
    sample = Sample(
        "a.png", "what?", task="question", media="image", target=None, load=str, files=("a.png",)
    )
    with AnswersFile(path, [sample], "x") as table:
        table.add(0, SampleResult("a.png", 0, 1.0, files=("a.png",)), TRACE)
    return path.read_bytes()


def _pickle(_: Path) -> bytes:
    import pickle

    return pickle.dumps([{"ref_id": 1, "sentences": [{"sent": "a cup"}], "box": [1.5, 2.0]}], 2)


def _workflows(folder: Path) -> bytes:
    append_line(folder / "made.jsonl", workflow(FIND, COUNT, STORE, DONE))
    return (folder / "made.jsonl").read_bytes()


_DUMP = (
    "<mediawiki><page><title>T</title><ns>0</ns><revision><text>A [[lamp]] "
    "&lt;ref&gt;x&lt;/ref&gt; {{t|a}} by '''Tarnix'''.</text></revision></page></mediawiki>"
)
_WORKFLOW_LINE = '{"workflow": "w", "turn": 1, "effective": true}\n'


def _layout(_: Path) -> bytes:
    values = {"size": [SIDE, SIDE], "categories": list(NAMES), **LAYOUTS["yolox"]}
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()).encode()


def _onnx(folder: Path) -> bytes:
    (folder / "a.toml").write_bytes(_layout(folder))
    return Graph().write(folder / "made.onnx").read_bytes()


READERS: Mapping[str, Reader] = {
    "PNG": ("a.png", _picture("PNG"), media_from),
    "animated PNG": ("a.png", _picture("PNG", moves=True), media_from),
    "JPEG": ("a.jpg", _picture("JPEG"), media_from),
    "GIF": ("a.gif", _picture("GIF", moves=True), media_from),
    "WebP": ("a.webp", _picture("WEBP", moves=True), media_from),
    "BMP": ("a.bmp", _picture("BMP"), media_from),
    "PPM": ("a.ppm", _picture("PPM"), media_from),
    "TIFF": ("a.tif", _picture("TIFF", moves=True), media_from),
    "AVIF": ("a.avif", _picture("AVIF"), media_from),
    "HEIC": ("a.heic", _picture("HEIF"), media_from),
    "MP4": ("a.mp4", _video, media_from),
    "PDF": ("a.pdf", _picture("PDF"), media_from),
    "manifest": ("run.json", _stored("run.json"), _run("run.json")),
    "samples": ("samples.db", _stored("samples.db"), _run("samples.db")),
    "feedback": ("feedback.jsonl", _stored("feedback.jsonl"), _run("feedback.jsonl")),
    "bank": ("bank.jsonl", _bank, read_bank),
    "corrections": ("endpoints.json", _corrections, _read_corrections),
    "pool": ("index.db", _pool, _read_pool),
    "job": ("job.json", lambda _: dumps(a_record()).encode(), lambda path: read_job(path.parent)),
    "job labels": ("labels.jsonl", _bytes(_LABEL * 2), lambda path: _job_labels(path.parent)),
    "script": ("answer.py", _script, _read_script),
    "profile": ("a.toml", lambda _: shipped_profiles()["endpoint"].read_bytes(),
                lambda path: read_profile(str(path))),
    "ONNX": ("a.onnx", _onnx, OnnxDetector.from_pretrained),
    "layout": ("a.toml", _layout, lambda path: Layout.beside(path.with_suffix(".onnx"))),
    "graph": ("a.toml", lambda _: (GRAPHS / "avis.toml").read_bytes(),
              lambda path: load_route(str(path))),
    "CSV": ("a.csv", _bytes("media,query,answer,task,options,id\na.png,what?,cup,question,,1\n"
                            'a.png,where?,"[1, 2, 3, 4]",ground,,2\n'),
            lambda path: OwnFile(path).samples(DatasetSpec())),
    "JSON lines": ("a.jsonl", _bytes('{"media": "a.png", "query": "what?", "answer": "cup"}\n' * 2),
                   lambda path: OwnFile(path).samples(DatasetSpec())),
    "texts": ("t.jsonl", _bytes('{"title": "T", "text": "A lamp.", "related": ["Why?"]}\n' * 2),
              _texts),
    "Markdown": ("t.md", _bytes("# T\nA lamp.\n\n## P\n```\nx\n```\n"), _texts),
    "dump": ("t.xml", _bytes(_DUMP), _texts),
    "description": ("d.md", _bytes("Pictures of lamps.\n"), read_description),
    "queries": ("q.jsonl", _bytes('{"query": "what?"}\nwhere?\n'),
                lambda path: read_query_file(path, "question")),
    "predictions": ("p.jsonl", _bytes('{"id": "a", "box": [1, 2, 3, 4]}\n{"id": "b", "answer": 1}'),
                    lambda path: read_predictions(path, "refcoco")),
    "NLVR predictions": ("p.csv", _bytes("dev-1-0-1.png,true\n"),
                         lambda path: read_predictions(path, "nlvr")),
    "NExT-QA predictions": ("p.json", _bytes('{"1_2": {"prediction": 3}}'),
                            lambda path: read_predictions(path, "nextqa")),
    "labels": ("l.jsonl", _bytes(_WORKFLOW_LINE * 2), read_labels),
    "workflows": ("w.jsonl", _workflows, read_workflows),
    "look": ("a.npz", lambda _: (DOMAINS / "world.npz").read_bytes(), Look.read),
    "record": ("r.json", lambda _: json.dumps(result_record(TRACE)).encode(),
               lambda path: trace_from_record(json.loads(path.read_bytes()))),
    "pickle": ("refs.p", _pickle, lambda path: load_plain(SourceFile(path.parent, path.name))),
    "table": ("answers.csv", _table,
              lambda path: AnswersFile(path, [], "x").__exit__()),
}  # fmt: skip


def damaged(content: bytes, seed: int) -> bytes:
    """Return the content with one to six changes: bytes, cuts, repetitions, numbers, brackets."""
    draw, data = random.Random(seed), bytearray(content)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(data) + 1)
        end = min(len(data), at + draw.choice((1, 2, 4, 16, 200)))
        match draw.randrange(6):
            case 0:
                data[at:end] = draw.randbytes(end - at)
            case 1:
                del data[at:end]
            case 2:
                del data[at:]
            case 3:
                data[at:at] = data[at:end] * draw.choice((1, 3, 1_000))
            case 4:
                data[at:end] = draw.choice((b"\xff" * 8, b"\0" * 8, b"9" * 400, b"-1", b"1e999"))
            case _:
                data[at:at] = draw.choice((b"[" * 9_000, b'"', b"{", b"\n", b"null", b"\xed\xa0"))
    return bytes(data)
