"""Text search on the web, through any engine that answers with JSON.

A search looks into the store, waits for its turn (:class:`RateLimiter`), asks the service and reads
passages from the paths that its description names. Replies are stored in a file, so that a run can
be repeated and an equal query is paid only once. Addresses in replies are shown to people and never
followed.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from viper.errors import ProfileError, UsageError
from viper.record import record_from_json
from viper.search.findings import MAX_NAME, Passage, TextFindings, check_search, plain
from viper.search.web_service import Fetcher, WebService, at_path
from viper.storage.sqlite import SqliteStore

# Related questions that are kept; a prompt shows no more.
MAX_RELATED = 5

# Least number of results to request and store. Searches with another limit can use them, and a
# request costs the same for any number on a page.
_KEPT = 20


@dataclass(frozen=True)
class TextService(WebService):
    """Description of a search engine for texts.

    Attributes:
        title: path of the title in an item.
        text: path of the snippet in an item.
        page: path of the address in an item; "" without one.
        direct: path of a direct answer, or of a list of them, in the reply; "" without one.
        related: path of a list of questions in the reply; "" without one.
        per_minute: most requests per minute; 0 sets no limit.
    """

    title: str = "title"
    text: str = "snippet"
    page: str = "link"
    direct: str = ""
    related: str = ""
    per_minute: float = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.text or self.per_minute < 0:
            raise UsageError("a text search needs the path of a snippet and no negative pace")


def searxng(address: str, **options: Any) -> TextService:
    """Describe a SearXNG instance. Its ``settings.yml`` must allow the format ``json``.

    Args:
        address: address of the instance, for example ``https://search.example.org``.
        options: other fields of :class:`TextService`.

    Raises:
        UsageError: the address is not an http(s) address.
    """
    if "{" in address or urlsplit(address).query:
        raise UsageError(
            f"{address!r} is no address of a SearXNG instance; expected one as "
            "https://search.example.org"
        )
    search_address = f"{address.rstrip('/')}/search?q={{text}}&format=json"
    paths: dict[str, Any] = {"items": "results", "text": "content", "page": "url"}
    paths |= {"direct": "answers", "related": "suggestions"}
    return TextService(search_address, **(paths | options))


class RateLimiter:
    """Limits requests to a number per minute, evenly spaced. Safe for several threads.

    Args:
        per_minute: requests per minute; 0 sets no limit.
    """

    def __init__(
        self,
        per_minute: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._next = -float("inf")

    def wait(self) -> None:
        """Wait until the next request may go."""
        with self._lock:
            now = self._clock()
            at = max(now, self._next)
            self._next = at + self._gap
        if at > now:
            self._sleep(at - now)


class WebTexts:
    """Text search (:class:`~viper.search.findings.TextSearch`) on the web.

    Args:
        store: store of earlier replies; None keeps them as long as this object lives.
        sleep: waits between requests and attempts.

    Raises:
        MissingExtraError: ``httpx`` is not installed.
    """

    @classmethod
    def described(cls, backend: str, options: Mapping[str, Any], store: SqliteStore) -> WebTexts:
        """Build the search from a profile: ``searxng`` or ``json``, and fields of the service.

        Raises:
            ProfileError: an unknown field, or one of the wrong kind.
            UsageError: an invalid service.
        """
        field_names = {option.name for option in fields(TextService)} - {"backoff"}
        values: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in options.items()
        }
        if "address" not in values or not set(values) <= field_names:
            raise ProfileError(
                f"text_search: the options {', '.join(values) or 'none'}; expected address and, as "
                f"wanted, {', '.join(sorted(field_names - {'address'}))}"
            )
        try:
            make: Callable[..., TextService] = searxng if backend == "searxng" else TextService
            return cls(make(**values), store)
        except TypeError as error:
            raise ProfileError(f"text_search: an option of the wrong kind ({error})") from None

    def __init__(
        self,
        service: TextService,
        store: SqliteStore | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = self.model_id = f"web:{service.host}"
        self._service, self._store = service, store or SqliteStore()
        self._fetch = Fetcher(service, sleep)
        self._pace = RateLimiter(service.per_minute, sleep=sleep)

    def search(self, query: str, limit: int) -> TextFindings:
        """See :meth:`viper.search.findings.TextSearch.search`.

        Raises:
            UsageError: see there; or the key is not set.
            ModelError: the engine does not answer, refuses, or gives an invalid reply.
        """
        check_search(query, limit)
        most = max(limit, _KEPT)
        request = json.dumps(["text search", self._service.address, plain(query), most])
        key = hashlib.sha256(request.encode()).hexdigest()
        findings = None
        with suppress(ValueError):  # damaged, so request it again
            if (cached := self._store.get(key)) is not None:
                findings = record_from_json(TextFindings, json.loads(cached))
        if findings is None:
            findings = self._request(plain(query), most)
            self._store.put(key, json.dumps(asdict(findings)))
        return TextFindings(findings.passages[:limit], findings.direct, findings.related)

    def close(self) -> None:
        """Close the connections."""
        self._fetch.close()

    def _request(self, query: str, limit: int) -> TextFindings:
        self._pace.wait()
        service = self._service
        value, items = self._fetch.found("text", query, limit)

        def text_at(item: Any, path: str) -> str:
            return plain(at_path(item, path), MAX_NAME) if path else ""

        passages = []
        for place, item in enumerate(items, start=1):
            title, page = text_at(item, service.title), text_at(item, service.page)
            if text := plain(at_path(item, service.text)):
                passages.append(Passage(title, text, page, 1.0 / place))
        direct = next(_texts(at_path(value, service.direct)), "") if service.direct else ""
        related = list(_texts(at_path(value, service.related))) if service.related else []
        questions = tuple(question[:MAX_NAME] for question in related[:MAX_RELATED])
        return TextFindings(tuple(passages), direct, questions)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a reply: a text, a list of texts, or of objects that hold one."""
    values: Iterable[Any] = value if isinstance(value, list) else [value]
    for item in values:
        if isinstance(item, dict):
            item = next((item[key] for key in ("answer", "question", "text") if key in item), None)
        if text := plain(item):
            yield text
