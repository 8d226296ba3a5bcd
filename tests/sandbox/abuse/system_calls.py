"""System calls from inside a child that has broken out of the language rules.

Plain Python and calls by name (``hostile_prelude``). Each must end the process or fail for
want of permission: any other error would mean that the kernel had begun to look at it. With
the layers of the kernel taken away, those of the guard "kernel" do what they ask for.
Variables of the programs: ``parent`` is a process id, ``folder`` an empty folder.
"""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases
from tests.sandbox.abuse.wire_frames import done

KERNEL = (
    "descriptors", "rlimits", "uid", "pdeathsig", "dumpable", "no_new_privs", "landlock", "seccomp",
)  # fmt: skip

_ANSWER = "".join(f"\\\\{byte:03o}" for byte in done("loot"))
"""An answer of the child, as the shell's ``printf`` takes it."""

CASES = cases(
    "system calls",
    {
        "kernel": {
            # plain Python
            "read a file": "answer = read_file('/etc/passwd')",
            "make a file": "answer = write_file(folder + '/x')",
            "list a folder": "answer = list_folder('/')",
            "fork": "pid = fork()\nif pid == 0:\n    exit(0)\nanswer = pid",
            "become another program": f"answer = execute('/bin/sh', '-c', \"printf '{_ANSWER}' >&3\")",
            "internet socket": "answer = str(connect())",
            "pair of sockets": "answer = str(unix_socket())",
            "signal to the parent": "kill(parent, 0)\nanswer = 1",
            "signal to everyone": "kill(-1, 0)\nanswer = 1",
            "handler of a signal": "answer = str(on_signal())",
            "blocked signals": "answer = str(block_signals())",
            "higher limit": "answer = raise_limit()",
            # files
            "open": "answer = syscall('open', '/etc/passwd', 0)",
            "openat": "answer = syscall('openat', -100, '/etc/passwd', 0)",
            "openat2": "answer = syscall('openat2', -100, '/etc/passwd', room(24), 24)",
            "creat": "answer = syscall('creat', folder + '/x', 0o600)",
            "mkdir": "answer = syscall('mkdir', folder + '/x', 0o700)",
            "mknod": "answer = syscall('mknod', folder + '/x', 0o10600, 0)",
            "readlink": "answer = syscall('readlink', '/proc/self/exe', room(99), 99)",
            "statx": "answer = syscall('statx', -100, '/etc/passwd', 0, 0xfff, room(256))",
            "inotify": "answer = syscall('inotify_init1', 0)",
            # descriptors
            "dup": "answer = syscall('dup', 3)",
            "fcntl": "answer = syscall('fcntl', 3, 0, 9)",
            "pipe": "answer = syscall('pipe2', room(8), 0)",
            "eventfd": "answer = syscall('eventfd2', 0, 0)",
            "memfd_create": "answer = syscall('memfd_create', 'x', 0)",
            "ioctl": "answer = syscall('ioctl', 3, 0x541b, room(8))",
            # sockets
            "socket": "answer = syscall('socket', 2, 1, 0)",
            "socketpair": "answer = syscall('socketpair', 1, 1, 0, room(8))",
            "connect": "fd = syscall('socket', 2, 2, 0)\nanswer = syscall('connect', fd, room(16, 0x0100007f_09000002), 16)",
            "getsockname": "answer = syscall('getsockname', 3, room(128), room(8, 128))",
            # processes
            "clone": "pid = syscall('clone', 17, 0, 0, 0, 0)\nif pid == 0:\n    exit(0)\nanswer = pid",
            "clone3": "pid = syscall('clone3', room(88, 0, 0, 0, 0, 17), 88)\nif pid == 0:\n    exit(0)\nanswer = pid",
            "kill": "answer = syscall('kill', parent, 0) + 1",
            "tgkill": "answer = syscall('tgkill', parent, parent, 0) + 1",
            "pidfd_open": "answer = syscall('pidfd_open', parent, 0)",
            "getppid": "answer = syscall('getppid')",
            "prctl": "answer = syscall('prctl', 4, 1, 0, 0, 0)",
            "personality": "answer = syscall('personality', 0xffffffff)",
            "unshare": "answer = syscall('unshare', 0)",
            "setrlimit": "answer = syscall('setrlimit', 9, room(16, 1 << 40, 1 << 40))",
            "prlimit of the parent": "answer = syscall('prlimit64', 0, 7, 0, room(16))",
            "rt_sigaction": "answer = syscall('rt_sigaction', 10, 0, room(152), 8)",
            "uname": "answer = syscall('uname', room(400))",
            # memory
            "executable memory": "answer = syscall('mmap', 0, 4096, 7, 0x22, -1, 0)",
            "memory made executable": "answer = syscall('mprotect', syscall('mmap', 0, 4096, 3, 0x22, -1, 0), 4096, 5) + 1",
            "shared segment": "x = syscall('shmget', 0, 4096, 0o1600)\nsyscall('shmctl', x, 0, 0)\nanswer = x + 1",
        },
        # These need privileges or a kernel that offers them, fail without any layer, or would
        # harm the machine or the wire if they went through.
        None: {
            "become root": "answer = become_root()",
            "another descriptor": "answer = send_elsewhere()",
            "descriptor over the wire": "answer = send_with_descriptor()",
            "read from the wire": "answer = syscall('read', 3, room(8), 8)",
            "write to the wire": "answer = syscall('write', 3, 'x', 1)",
            "send to an address": "answer = syscall('sendto', 3, 'x', 1, 0, room(16, 1), 16)",
            "send on the trace pipe": "answer = syscall('sendto', 4, 'x', 1, 0, 0, 0)",
            "receive from the trace pipe": "answer = syscall('recvfrom', 4, room(8), 8, 0, 0, 0)",
            "close of the wire": "answer = syscall('close', 3)",
            "end of the wire": "answer = syscall('shutdown', 3, 2)",
            "typed into the terminal": "answer = syscall('ioctl', 0, 0x5412, 'x')",
            "vfork": "answer = syscall('vfork')",
            "execve": "answer = syscall('execve', '/nowhere/true', 0, 0)",
            "execveat": "answer = syscall('execveat', -100, '/nowhere/true', 0, 0, 0)",
            "ptrace": "answer = syscall('ptrace', 3, parent, 0, 0)",
            "memory of the parent": "answer = syscall('process_vm_readv', parent, room(16, room(8), 8), 1, room(16, 4194304, 8), 1, 0)",
            "descriptor of the parent": "answer = syscall('pidfd_getfd', 3, 0, 0)",
            "setuid": "answer = syscall('setuid', 0)",
            "user namespace": "answer = syscall('unshare', 0x10000000)",
            "setns": "answer = syscall('setns', 3, 0)",
            "mount": "answer = syscall('mount', 'none', '/nowhere', 'tmpfs', 0, 0)",
            "pivot_root": "answer = syscall('pivot_root', '/nowhere', '/nowhere')",
            "chroot": "answer = syscall('chroot', '/nowhere')",
            "bpf": "answer = syscall('bpf', 0, 0, 0)",
            "io_uring_setup": "answer = syscall('io_uring_setup', 1, room(120))",
            "userfaultfd": "answer = syscall('userfaultfd', 1)",
            "perf_event_open": "answer = syscall('perf_event_open', room(128), 0, -1, -1, 0)",
            "keyctl": "answer = syscall('keyctl', 0, -3, 0)",
            "name_to_handle_at": "answer = syscall('name_to_handle_at', -100, '/etc', room(136, 128), room(8), 0)",
            "seccomp": "answer = syscall('seccomp', 0, 0, 0)",
            "landlock_create_ruleset": "answer = syscall('landlock_create_ruleset', 0, 0, 1)",
            "splice": "answer = syscall('splice', 3, 0, 4, 0, 1, 0)",
            "second table of calls": f"answer = syscall_number({0x40000000 + 39})",
            "number that is no call": "answer = syscall_number(99999)",
            "number below zero": "answer = syscall_number(-1)",
        },
    },
    frozenset(["crash", "runtime"]),
)
