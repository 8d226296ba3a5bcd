"""Connections that send nothing keep nobody out."""

from __future__ import annotations

import socket
import time

import httpx
import pytest

from tests.serve.bench import WAIT_S, served
from viper.serve import service


def test_silent_connections_keep_nobody_out() -> None:
    with served() as server:
        url = server.client.base_url
        silent = [socket.create_connection((url.host, url.port or 80)) for _ in range(200)]
        try:
            for each in silent[::2]:
                each.sendall(b"POST /v1/run HTT")
            time.sleep(0.2)
            with httpx.Client(base_url=url, timeout=WAIT_S) as other:
                for path in ("/healthz", "/readyz", "/metrics"):
                    assert other.get(path).status_code == 200
        finally:
            for each in silent:
                each.close()


def test_a_connection_that_sends_no_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEAD_S", 0.2)
    with served() as server:
        url = server.client.base_url
        with socket.create_connection((url.host, url.port or 80), timeout=WAIT_S) as silent:
            silent.sendall(b"POST /v1/run HTT")
            assert silent.recv(100) == b""


def test_a_kept_connection_must_send_its_next_request_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "HEAD_S", 0.5)
    with served() as server:
        url = server.client.base_url
        with socket.create_connection((url.host, url.port or 80), timeout=WAIT_S) as kept:
            kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
            assert kept.recv(100).startswith(b"HTTP/1.1 200")
            kept.sendall(b"GET /healthz HTT")
            while kept.recv(100):
                pass


def test_health_checks_are_outside_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SPARE_CONNECTIONS", 0)
    monkeypatch.setattr(service, "SILENT_CONNECTIONS", 1_000)
    with served() as server:
        url = server.client.base_url
        silent = [socket.create_connection((url.host, url.port or 80)) for _ in range(100)]
        try:
            with httpx.Client(base_url=url, timeout=WAIT_S) as other:
                assert other.get("/metrics").status_code == 503
                assert other.get("/healthz").status_code == 200
        finally:
            for each in silent:
                each.close()
