"""NExT-QA, multiple choice: questions about what happens in a video, five options each.

Files: ``SPLIT.csv`` (``video, frame_count, width, height, question, answer, qid, type, a0..a4``;
``answer`` is an index) and ``map_vid_vidorID.json`` (video id to file stem); videos are
``videos/STEM.mp4`` as VidOR's folders have them, or flat, ``videos/VIDEO.mp4``; ``NExTVideo/`` does
as well. The id of a sample is ``VIDEO_QID``; its cluster the video. Groups: ``type`` as in the
file (the official report counts TP as TN) and ``group``, C, T or D.

``val:hard`` is the part of the validation split that one frame does not answer. It needs the
published list, ``atp-hard-ct4.txt``, beside ``val.csv``: row numbers of ``val.csv`` from 0, one a
line. A list of ids ``VIDEO_QID`` under a name that begins with ``atp-hard`` is read as well.

Source: Xiao et al., CVPR 2021; https://github.com/doc-doc/NExT-QA. Hard subset: Buch et al.,
CVPR 2022; that its lines are row numbers: ``eval_mc.py`` of https://github.com/doc-doc/NExT-GQA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from viper.data.layout import OfficialSet, first_there, of_files, unique
from viper.data.sample import DatasetSpec, Finding, Sample
from viper.data.source import Record, SourceFile, brief, check_name

ORIGIN = "https://github.com/doc-doc/NExT-QA (dataset/nextqa)"
VIDEOS = "https://github.com/doc-doc/NExT-QA (NExTVideo.zip)"
HARD = "https://stanfordvl.github.io/atp-revisit-video-lang/assets/atp-hard-ct4.txt"

COLUMNS = ("video", "question", "answer", "qid", "type", "a0", "a1", "a2", "a3", "a4")
TYPES = ("CW", "CH", "TN", "TP", "TC", "DC", "DL", "DO")
# The columns a0 to a4 of the data set.
OPTIONS = 5

# Maps the id of a video to its file's stem in VidOR.
MAP = "map_vid_vidorID.json"


class _NextQa(OfficialSet):
    """NExT-QA; its check also says how videos are looked up."""

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        findings = super().check(spec)
        mapped = spec.root is not None and (spec.root / MAP).is_file()
        says = "videos by their VidOR folders" if mapped else "absent: videos are looked up flat"
        return [Finding(True, MAP, says), *findings]


def _files(root: Path, split: str) -> list[SourceFile]:
    table = SourceFile(root, f"{split.split(':')[0]}.csv", ORIGIN)
    if split != "val:hard":
        return [table]
    listed = [path.name for path in root.glob("atp-hard*.txt")] or ["atp-hard-ct4.txt"]
    return [table, SourceFile(root, min(listed), HARD)]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    table, *lists = sources
    map_file = SourceFile(table.root, MAP, ORIGIN)
    stems: dict[str, str] = {}
    if map_file.path.is_file():
        record = Record.of(map_file.read_json(), map_file, "")
        stems = {str(video): record.text(video) for video in record.values}
    rows = table.csv_rows(COLUMNS)
    samples = (nextqa_sample(Record(row, table, at), stems) for at, row in rows)
    if not lists:
        return samples
    every = unique(samples, table)
    ids = {sample.sample_id for sample in every}
    listed_ids = set()
    for at, line in lists[0].lines():
        # no set has a billion rows, and int() of a long line takes time
        if line.isdecimal() and len(line) < 10 and int(line) < len(every):
            listed_ids.add(every[int(line)].sample_id)
        elif line in ids:
            listed_ids.add(line)
        else:
            raise lists[0].wrong(at, f"is {brief(line)}", "a row number of val.csv or VIDEO_QID")
    return (sample for sample in every if sample.sample_id in listed_ids)


def nextqa_sample(record: Record, stems: Mapping[str, str]) -> Sample:
    """Return the sample of a row whose fields are texts.

    Raises:
        DataError: a field is off.
    """
    if None in record.values:
        raise record.source.wrong(record.at, "has more fields than the header", "one a column")
    video, question_type = record.file_name("video"), record.text("type")
    if question_type not in TYPES:
        raise record.wrong("type", f"one of {', '.join(TYPES)}")
    answer = record.digits("answer")
    if answer >= OPTIONS:
        raise record.wrong("answer", f"the index of an option, 0 to {OPTIONS - 1}")
    stem = check_name(stems.get(video, video), record, "video")
    names = [f"{folder}/{s}.mp4" for folder in ("videos", "NExTVideo") for s in (stem, video)]
    return of_files(
        record.source.root,
        [first_there(record.source.root, names)],
        sample_id=f"{video}_{record.digits('qid')}",
        text=record.text("question"),
        task="choice",
        media="video",
        target=answer,
        options=tuple(record.text(f"a{index}") for index in range(OPTIONS)),
        groups={"type": question_type, "group": question_type[0]},
        cluster=video,
    )


NEXTQA = _NextQa(
    "nextqa",
    ("val", "test", "train", "val:hard"),
    "nextqa",
    "multiple choice about a video (Xiao et al. 2021)",
    VIDEOS,
    _files,
    _read,
)
