"""Index of texts on this disk: passages by BM25, in tantivy. It is incremental and resumable.

An update adds the documents of new and changed files, commits at intervals, and notes each whole
file in a manifest. Each passage stores its file and the number of its document. So an interrupted
run continues after the last committed document, and changed or missing files are removed by name.

Source: BM25 (Robertson and Zaragoza 2009) with k1 = 1.2, b = 0.75, as implemented by tantivy.
Differs: tantivy stores a passage's length in one byte, so a few of the first ten results differ
from the exact formula; ``benchmarks/search_texts.py`` measures how many.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from viper.errors import StoreError, UsageError
from viper.search.documents import documents, passages, text_files
from viper.search.findings import MAX_NAME, Passage, TextFindings, check_search, plain

# Most different words of a query that are searched for; more come from whole texts as queries.
TERMS = 32

# Version of the manifest: an index of another form is refused and not read wrongly.
_VERSION = 1
_MANIFEST = "manifest.json"
# Memory of the writer, and passages between two commits: a kill loses at most some seconds of work,
# and each commit makes a segment that must be merged.
_HEAP = 128 << 20
_COMMIT_EVERY = 20_000
# Name of the analyser in stored indexes; longer words are no words but data.
_ANALYSER = "viper"
_LONGEST_WORD = 64

# Called with the passages so far, the bytes read and all bytes.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class IndexedFile:
    """File as it was when it was indexed.

    Attributes:
        done: whether the whole file is in the index.
    """

    size: int
    mtime_ns: int
    done: bool = False


@dataclass(frozen=True)
class UpdateResult:
    """Numbers of files read, unchanged and removed, and of passages after the update.

    Attributes:
        unread: number of articles whose markup cannot be read, and the first of them in words.
    """

    read: int
    kept: int
    gone: int
    passages: int
    unread: tuple[int, str] = (0, "")


class TextIndex:
    """Search (:class:`~viper.search.findings.TextSearch`) over text files.

    Args:
        folder: folder of the index; :meth:`update` creates it.
    """

    def __init__(self, folder: Path) -> None:
        import tantivy

        self.folder, self.name = folder, f"texts:{folder.name}"
        self._tantivy: Any = tantivy
        self._opened: tuple[Any, Any] | None = None
        self._unread = 0, ""
        self._analyser = (  # lowers case, removes accents and English endings
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
            .filter(tantivy.Filter.remove_long(_LONGEST_WORD))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.ascii_fold())
            .filter(tantivy.Filter.stemmer("English"))
            .build()
        )

    @property
    def is_there(self) -> bool:
        """Return whether anything was ever indexed here."""
        return (self.folder / _MANIFEST).is_file()

    def __len__(self) -> int:
        """Return the number of passages.

        Raises:
            StoreError: the index is broken.
        """
        if not self.is_there:
            return 0
        with self._errors():
            return int(self._searcher()[1].num_docs)

    @property
    def state_id(self) -> str:
        """Return an id that changes with the index; "" without an index."""
        path = self.folder / "meta.json"
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""

    def update(
        self, paths: Sequence[Path], progress: Progress | None = None, *, prune: bool = False
    ) -> UpdateResult:
        """Index files and whole folders. Indexed files that have not changed are not read.

        The index is stored after every :data:`_COMMIT_EVERY` passages. An interrupted update
        resumes when it is called again.

        Args:
            prune: remove indexed files that are no longer below these paths.

        Raises:
            UsageError: a path does not exist, or there is nothing to index.
            DataError: a file's content does not match its name; earlier files are indexed.
            StoreError: the index cannot be written, is broken, or another process writes to it.
        """
        self._unread = 0, ""
        files = {str(path.resolve()): path for path in text_files(list(paths))}
        sizes = {name: path.stat().st_size for name, path in files.items()}
        with self._errors():
            indexed = self._manifest()
            self.folder.mkdir(parents=True, exist_ok=True)
            index = self._index()
            writer = index.writer(heap_size=_HEAP, num_threads=min(2, os.cpu_count() or 1))
            others = [name for name in indexed if name not in files]
            gone = [name for name in others if prune or not Path(name).is_file()]
            for name in gone:
                writer.delete_documents("file", _key(name))
                del indexed[name]
            if gone:
                writer.commit()
                self._keep(indexed)
            read, total, before = 0, sum(sizes.values()), 0
            for name, path in files.items():
                status = path.stat()
                begun = IndexedFile(status.st_size, status.st_mtime_ns)
                stamp = replace(begun, done=True)
                if indexed.get(name) != stamp:
                    read += 1
                    first = 0
                    if indexed.get(name) == begun:
                        first = self._next_document(index, name)
                    else:
                        writer.delete_documents("file", _key(name))
                        writer.commit()
                        indexed[name] = begun
                        self._keep(indexed)
                    for stored, done in self._add(index, writer, name, path, first):
                        if progress is not None:
                            progress(stored, before + done, total)
                    indexed[name] = stamp
                    self._keep(indexed)
                before += sizes[name]
            writer.wait_merging_threads()
            self._opened = None
            passages = self._searcher()[1].num_docs
            return UpdateResult(read, len(files) - read, len(gone), passages, self._unread)

    def search(self, query: str, limit: int) -> TextFindings:
        """See :meth:`viper.search.findings.TextSearch.search`.

        The direct answer is that of the first document whose title words are all in the query.
        """
        check_search(query, limit)
        if not self.is_there:
            raise UsageError(
                f"no texts are indexed as {self.folder.name!r}; run: viper setup index text FILES"
            )
        words = list(dict.fromkeys(self._analyser.analyze(plain(query))))[:TERMS]
        if not words:
            return TextFindings()
        with self._errors():
            schema, searcher = self._searcher()
            occur, term = self._tantivy.Occur.Should, self._tantivy.Query.term_query
            query_terms = self._tantivy.Query.boolean_query(
                [(occur, term(schema, "body", word)) for word in words]
            )
            hits = searcher.search(query_terms, limit, count=False).hits
            documents = [(score, searcher.doc(address)) for score, address in hits]
        passages, direct = [], ""
        related: dict[str, None] = {}
        for score, document in documents:
            about = json.loads(document["about"][0])
            passages.append(Passage(about["title"], about["text"], about["source"], float(score)))
            titled = frozenset(self._analyser.analyze(about["title"]))
            if not direct and titled and titled.issubset(words):
                direct = about.get("direct", "")
            related.update(dict.fromkeys(about.get("related", ())))
        return TextFindings(tuple(passages), direct, tuple(related)[:5])

    def _add(
        self, index: Any, writer: Any, name: str, path: Path, first: int
    ) -> Iterator[tuple[int, int]]:
        """Add a file's documents from a given number on. Only whole documents are committed.

        Yield the passages of the index and the bytes of the file after each commit.
        """
        pending = 0
        stored = index.searcher().num_docs
        for number, (document, read) in enumerate(documents(path)):
            if document.unread:
                count, first_unread = self._unread
                words = first_unread or f"{path}: {document.title}: {document.unread}"
                self._unread = count + 1, words
            if number < first:
                continue
            source = document.source or Path(name).name[:MAX_NAME]
            more = {"direct": document.direct, "related": document.related}
            more = {key: value for key, value in more.items() if value}
            for passage in passages(document):
                about = {"title": document.title, "text": passage, "source": source, **more}
                row = self._tantivy.Document()
                row.add_text("file", _key(name))
                row.add_unsigned("document", number)
                row.add_text("body", f"{document.title}. {passage}")
                row.add_text("about", json.dumps(about, ensure_ascii=False))
                writer.add_document(row)
                pending += 1
                stored += 1
            if pending >= _COMMIT_EVERY:
                writer.commit()
                pending = 0
                yield stored, read
        writer.commit()
        index.reload()
        yield stored, path.stat().st_size

    def _next_document(self, index: Any, name: str) -> int:
        """Return the number of a file's first document that is not in the index."""
        index.reload()
        schema, searcher = index.schema, index.searcher()
        term = self._tantivy.Query.term_query(schema, "file", _key(name))
        last = searcher.search(
            term, 1, count=False, order_by_field="document", order=self._tantivy.Order.Desc
        ).hits
        return int(last[0][0]) + 1 if last else 0

    def _index(self) -> Any:
        schema = self._tantivy.SchemaBuilder()
        schema.add_text_field("file", tokenizer_name="raw", index_option="basic")
        schema.add_unsigned_field("document", fast=True)
        schema.add_text_field("body", tokenizer_name=_ANALYSER, index_option="freq")
        schema.add_text_field("about", stored=True, tokenizer_name="raw", index_option="basic")
        index = self._tantivy.Index(schema.build(), path=str(self.folder), reuse=True)
        index.register_tokenizer(_ANALYSER, self._analyser)
        return index

    def _searcher(self) -> tuple[Any, Any]:
        if self._opened is None:
            index = self._index()
            self._opened = index.schema, index.searcher()
        return self._opened

    def _manifest(self) -> dict[str, IndexedFile]:
        path = self.folder / _MANIFEST
        if not path.is_file():
            return {}
        value = json.loads(path.read_text("utf-8"))
        if value.get("version") != _VERSION:
            raise StoreError(f"{path}: another version; delete {self.folder} to index anew")
        return {name: IndexedFile(**fields) for name, fields in value["files"].items()}

    def _keep(self, files: dict[str, IndexedFile]) -> None:
        value = {"version": _VERSION, "files": {name: asdict(file) for name, file in files.items()}}
        part = self.folder / f".{_MANIFEST}.part"
        part.write_text(json.dumps(value, indent=1), "utf-8")
        part.replace(self.folder / _MANIFEST)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.folder}: cannot be used ({error.strerror or error})") from None
        except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            if "LockBusy" in str(error):
                raise StoreError(f"{self.folder}: another process is writing this index") from None
            raise StoreError(
                f"{self.folder}: the index is broken ({str(error)[:120]}); delete it to index anew"
            ) from None


def _key(name: str) -> str:
    """Return a hash of a file's name for the index, because tantivy drops long terms."""
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
