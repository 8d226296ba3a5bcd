"""Benchmarks whose official files are parquet tables with pictures in them.

The ``datasets`` library (extra ``data``) reads the files below the root, and keeps an unpacked copy
in its cache. Samples are in the order of the tables:

- HR-Bench, ``hr_bench_4k.parquet`` and ``…_8k.parquet``: ``index, question, answer, category, A, B,
  C, D, cycle_category, image`` (base64). Each question has four rows, with its options in another
  order each. Sample id: ``index``. Cluster: the question with its options.
- CountBench with the questions of PaliGemma, ``data/test-00000-of-00001.parquet``: ``image, text,
  question, number``. Sample id: the row.
- BLINK, ``SUBTASK/val-00000-of-00001.parquet``: ``idx, image_1`` to ``image_4`` (empty beyond the
  last picture), ``choices, answer, prompt``. The question is the prompt without its lines of
  options, since ``question`` leaves out what is marked. Sample id: ``idx``. The split ``test`` has
  no public answers and is not read.
- CV-Bench, ``test_2d.parquet`` and ``test_3d.parquet``: ``idx, type, task, image, question,
  choices, answer, filename, source, source_filename``. Sample id: ``idx``.

Source: cards and files of the repositories under https://huggingface.co/datasets; papers: Wang et
al., AAAI 2025 (HR-Bench); Paiss et al., ICCV 2023, and Beyer et al. 2024 (CountBench); Fu et al.,
ECCV 2024 (BLINK); Tong et al., NeurIPS 2024 (CV-Bench).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from viper.data.hub import HubPicture
from viper.data.layout import OfficialSet
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile
from viper.plugins import need_packages


class _ParquetSet(OfficialSet):
    """Data set whose pictures are in its tables."""

    def has_media(self, root: Path, split: str) -> Callable[[str], bool]:
        return lambda name: True


def _set(
    name: str,
    repository: str,
    metric: str,
    summary: str,
    sample_of: Callable[..., Sample],
    tables: Mapping[str, tuple[str, ...]],
) -> OfficialSet:
    """Build a set.

    Args:
        repository: place of the official files on the hub.
        sample_of: builds the sample of a row, given its ``media`` and ``load``.
        tables: files of each split, below the root.
    """
    origin = f"https://huggingface.co/datasets/{repository}"

    def files(root: Path, split: str) -> list[SourceFile]:
        return [SourceFile(root, each, origin) for each in tables[split]]

    def read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
        return (sample for source in sources for sample in _samples(source, sample_of))

    return _ParquetSet(name, tuple(tables), metric, summary, "", files, read)


def _samples(source: SourceFile, sample_of: Callable[..., Sample]) -> Iterator[Sample]:
    if not source.path.is_file():
        raise source.missing()
    need_packages(("datasets",), source.name)
    import datasets
    from datasets.exceptions import DatasetsError

    try:
        table = datasets.Dataset.from_parquet(str(source.path))
    except (OSError, ValueError, KeyError, RuntimeError, DatasetsError) as error:
        cause = str(error.__cause__ or error).strip().split("\n")[0]
        raise source.wrong("", f"cannot be read ({cause[:200]})", "a parquet table") from None
    # Without the metadata no library decodes what a column claims to be: pictures stay bytes.
    table = datasets.Dataset(table.data.replace_schema_metadata(None))
    pictures = [name for name in table.column_names if name.startswith("image")]
    is_there = {name: table.data.column(name).is_valid().to_pylist() for name in pictures}
    for number, values in enumerate(table.remove_columns(pictures)):
        row = Record.of(values, source, f" row {number}")
        shown = tuple(name for name in pictures if is_there[name][number])
        if not shown:
            raise source.wrong(row.at, "has no picture", "one in the column 'image'")
        load = HubPicture(table, number, f"{source.path}{row.at}", shown)
        yield sample_of(row, media="images" if len(shown) > 1 else "image", load=load)


def _hrbench(row: Record, **picture: Any) -> Sample:
    name, question = row.name("index"), row.text("question")
    options = tuple(row.text(letter) for letter in "ABCD")
    return Sample(
        name,
        question,
        task="choice",
        target=row.letter("answer", len(options)),
        options=options,
        groups={"category": row.text("category"), "cycle": row.name("cycle_category")},
        cluster=" | ".join((question, *sorted(options))),
        files=(name,),
        **picture,
    )


def _countbench(row: Record, **picture: Any) -> Sample:
    name, count = row.at.removeprefix(" row "), str(row.whole("number"))
    return Sample(
        name,
        row.text("question"),
        task="question",
        target=count,
        groups={"count": count},
        files=(name,),
        **picture,
    )


def _blink(row: Record, **picture: Any) -> Sample:
    name, options = row.text("idx"), row.texts("choices", "choice")
    return Sample(
        name,
        row.text("prompt").split("\n(A)")[0],
        task="choice",
        target=row.letter("answer", len(options)),
        options=options,
        groups={"subtask": row.source.name.split("/")[0]},
        files=(name,),
        **picture,
    )


def _cvbench(row: Record, **picture: Any) -> Sample:
    options = row.texts("choices", "choice")
    return Sample(
        row.name("idx"),
        row.text("question"),
        task="choice",
        target=row.letter("answer", len(options)),
        options=options,
        groups={key: row.text(key) for key in ("type", "task", "source")},
        cluster=row.text("source_filename"),
        files=(row.text("filename"),),
        **picture,
    )


# Of BLINK, each a folder of the repository.
SUBTASKS = (
    *("Art_Style", "Counting", "Forensic_Detection", "Functional_Correspondence", "IQ_Test"),
    *("Jigsaw", "Multi-view_Reasoning", "Object_Localization", "Relative_Depth"),
    *("Relative_Reflectance", "Semantic_Correspondence", "Spatial_Relation"),
    *("Visual_Correspondence", "Visual_Similarity"),
)

_BLINK_FILES = {f"val:{name}": (f"{name}/val-00000-of-00001.parquet",) for name in SUBTASKS}

HRBENCH = _set(
    "hrbench",
    "DreamMr/HR-Bench",
    "hrbench",
    "multiple choice about 4K and 8K photographs (Wang et al. 2025)",
    _hrbench,
    {"4k": ("hr_bench_4k.parquet",), "8k": ("hr_bench_8k.parquet",)},
)

COUNTBENCH = _set(
    "countbench",
    "vikhyatk/CountBenchQA",
    "answers",
    "counting two to ten things (Paiss et al. 2023)",
    _countbench,
    {"test": ("data/test-00000-of-00001.parquet",)},
)

BLINK = _set(
    "blink",
    "BLINK-Benchmark/BLINK",
    "blink",
    "multiple choice in 14 tasks of perception (Fu et al. 2024)",
    _blink,
    {"val": tuple(file for files in _BLINK_FILES.values() for file in files), **_BLINK_FILES},
)

_CVBENCH_FILES = ("test_2d.parquet", "test_3d.parquet")

CVBENCH = _set(
    "cvbench",
    "nyu-visionx/CV-Bench",
    "cvbench",
    "multiple choice in 2D and 3D (Tong et al. 2024)",
    _cvbench,
    {"test": _CVBENCH_FILES, "2D": _CVBENCH_FILES[:1], "3D": _CVBENCH_FILES[1:]},
)
