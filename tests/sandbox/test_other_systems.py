"""viper on other systems than Linux, emulated: what macOS keeps, and one line on Windows."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# What Python lacks on macOS, and what viper does not install there.
MACOS = textwrap.dedent(
    """
    import os, platform, signal, socket, sys
    import pathlib
    sys.platform, platform.system = "darwin", lambda: "Darwin"
    for module, names in (
        (os, ("memfd_create", "pidfd_open", "setresuid", "setresgid")),
        (signal, ("pidfd_send_signal",)),
        (socket, ("MSG_CMSG_CLOEXEC",)),
    ):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    sys.modules["pyseccomp"] = sys.modules["landlockpy"] = None
    exists = pathlib.Path.exists
    pathlib.Path.exists = lambda path: not str(path).startswith("/proc") and exists(path)
    read_text = pathlib.Path.read_text
    def read(path, *args, **kwargs):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return read_text(path, *args, **kwargs)
    pathlib.Path.read_text = read
    """
)


def script(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


def on_macos(code: str) -> list[str]:
    """Return the lines that code prints on an emulated macOS, its sandbox included."""
    begin = "from viper.sandbox import pool\npool._BOOTSTRAP = MACOS + pool._BOOTSTRAP\n"
    done = script(f"MACOS = {MACOS!r}\nexec(MACOS)\n{begin}{textwrap.dedent(code)}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_macos_runs_programs_in_the_weak_sandbox_and_says_which_layers_hold() -> None:
    lines = on_macos(
        """
        from viper.sandbox import Limits, Sandbox
        with Sandbox(mode="weak", limits=Limits(time_s=1)) as sandbox:
            print(sandbox.run("answer = 20 + 22").value)
            print(sandbox.run("while True: pass").failure.kind)
            print(sandbox.run("import os").failure.kind)
            print(sandbox.run("answer = open('/etc/passwd')").failure is not None)
            for layer in sandbox.layers():
                print(layer.name, layer.holds, layer.detail)
        """
    )
    assert lines[:4] == ["42", "timeout", "forbidden", "True"]
    layers = {line.split()[0]: line.split()[1] == "True" for line in lines[4:]}
    held = {name for name, holds in layers.items() if holds}
    assert {"policy", "process", "descriptors"} <= held
    assert {"rlimits", "pdeathsig", "dumpable", "no_new_privs", "landlock", "seccomp"} <= (
        layers.keys() - held
    )
    assert any(line.startswith("rlimits False memory is not bounded") for line in lines)
    assert "seccomp False needs Linux" in lines and "landlock False needs Linux" in lines


def test_limits_that_macos_has_are_set_though_memory_is_not_bounded() -> None:
    lines = on_macos(
        """
        import os, resource
        from viper.sandbox.lockdown import Lockdown
        lockdown = Lockdown(64, 7)
        if os.fork() == 0:
            try:
                lockdown._limit_resources()
            except OSError:
                text = f"{resource.getrlimit(resource.RLIMIT_CPU)[0]} "
                text += f"{resource.getrlimit(resource.RLIMIT_NPROC)[0]}"
                os.write(1, text.encode())
            os._exit(0)
        os.wait()
        """
    )
    assert lines == ["7 0"]


def test_strict_mode_refuses_to_run_on_macos_in_one_line() -> None:
    (line,) = on_macos(
        """
        from viper.errors import SandboxUnavailableError
        from viper.sandbox import Sandbox
        with Sandbox() as sandbox:
            try:
                sandbox.run("answer = 1")
            except SandboxUnavailableError as error:
                print(error)
        """
    )
    assert "seccomp is missing (needs Linux)" in line and "--sandbox=weak" in line


@pytest.mark.parametrize(
    "code", ["from viper.__main__ import main; main()", "from viper import Reasoner"]
)
def test_windows_is_told_in_one_line_to_use_wsl(code: str) -> None:
    done = script(f"import sys; sys.platform = 'win32'; sys.modules['fcntl'] = None; {code}")
    assert done.returncode == 1 and not done.stdout
    assert "WSL" in done.stderr.splitlines()[-1]
    if "main" in code:
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("viper: ")
