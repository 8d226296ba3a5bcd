"""Python processes that begin with the heavy libraries imported.

Importing torch and transformers takes some ten seconds of processor time, more than most tests that
start ``viper`` take otherwise. :func:`python` returns a command line for such a test. It runs this
file as a small client, which asks a server to fork itself; the fork takes over the client's
arguments, folder, environment and standard streams and runs them as a new interpreter would. The
client passes signals on, and ends as the fork ends. A process of tests starts one server, when it
first needs one; the server ends with it.

What is about importing, starting or an unusual interpreter starts ``sys.executable`` itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

# The standard streams travel with one message of the arguments and the environment.
_MOST_BYTES = 1 << 20
_NUMBER = struct.Struct("<q")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_servers: dict[int, tuple[Any, Any, str]] = {}


def python(*arguments: str | Path) -> list[str]:
    """Return a command line that does what ``python ARGUMENTS`` does, without the long imports."""
    import subprocess
    import tempfile

    if os.getpid() not in _servers:
        folder = tempfile.TemporaryDirectory(prefix="viper-forked-")
        address = str(Path(folder.name) / "socket")
        # The server ends when this pipe closes: at the end of this process, whatever ends it.
        server = subprocess.Popen(
            [sys.executable, __file__, "--serve", address],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        _servers[os.getpid()] = server, folder, address
    return [sys.executable, "-S", "-E", __file__, _servers[os.getpid()][2], *map(str, arguments)]


def viper(*arguments: str | Path) -> list[str]:
    """Return a command line that does what ``viper ARGUMENTS`` does, without the long imports."""
    return python("-m", "viper", *arguments)


def _ask(address: str, arguments: list[str]) -> None:
    """Run the arguments in a fork of the server, and end as it ends."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    text = json.dumps([arguments, str(Path.cwd()), dict(os.environ)]).encode()
    socket.send_fds(server, [_NUMBER.pack(len(text))], [0, 1, 2])
    server.sendall(text)
    (pid,) = _NUMBER.unpack(server.recv(_NUMBER.size, socket.MSG_WAITALL))
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    (status,) = _NUMBER.unpack(server.recv(_NUMBER.size, socket.MSG_WAITALL))
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


class _Server:
    """Forks for each client, and tells it how the fork ended."""

    def __init__(self, address: str) -> None:
        from viper.models.libraries import import_libraries

        import_libraries()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address)
        self.listener.listen(64)
        self.clients: dict[socket.socket, int] = {}
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        print("ready", flush=True)

    def serve(self) -> None:
        """Fork until the pipe to the tests closes."""
        import select

        while True:
            ready = select.select([0, self.wake, self.listener, *self.clients], [], [])[0]
            if 0 in ready:
                return
            if self.wake in ready:
                os.read(self.wake, 4096)
                self._report()
            if self.listener in ready:
                self._fork(self.listener.accept()[0])
            for client in ready:
                if client in self.clients:  # it sends no more, so it was killed
                    os.kill(self.clients.pop(client), signal.SIGKILL)
                    client.close()

    def _report(self) -> None:
        while self.clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            for client in [each for each, its in self.clients.items() if its == pid]:
                del self.clients[client]
                client.sendall(_NUMBER.pack(status))
                client.close()

    def _fork(self, client: socket.socket) -> None:
        length, streams, _, _ = socket.recv_fds(client, _NUMBER.size, 3)
        text = client.recv(*_NUMBER.unpack(length), socket.MSG_WAITALL)
        pid = os.fork()
        if pid == 0:
            for each in (self.listener, client, *self.clients):
                each.close()
            _become(*json.loads(text), streams)
        for stream in streams:
            os.close(stream)
        self.clients[client] = pid
        client.sendall(_NUMBER.pack(pid))


def _become(
    arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]
) -> None:
    """Run the arguments of ``python`` in this fork, and end it as the interpreter ends."""
    import atexit
    import threading

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # Streams stay open to the end, as an interpreter's do.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    errors = "backslashreplace"
    sys.stderr = open(2, "w", 1, closefd=False, errors=errors)  # noqa: SIM115
    code: Any = 0
    try:
        _run(arguments)
    except SystemExit as ended:
        code = ended.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as an interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code or 0)


def _run(arguments: list[str]) -> None:
    import runpy
    from types import ModuleType

    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kind, *rest = arguments
    sys.path[0] = "" if kind in ("-c", "-m") else str(Path(kind).parent)
    sys.path[1:1] = [folder for folder in folders if folder]
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        # The script's own folder is no place to import from.
        sys.path[0] = str(Path(__file__).parent.parent)
        _Server(sys.argv[2]).serve()
    else:
        _ask(sys.argv[1], sys.argv[2:])
