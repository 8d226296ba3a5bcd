"""Resource limits of one program."""

from __future__ import annotations

from dataclasses import dataclass, fields

from viper.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Budgets of one program, or of one turn of a session.

    Attributes:
        time_s: wall time of the program in seconds; time spent inside tools is not counted.
        memory_mb: memory in MiB that a program may add to what its process starts with.
        calls: greatest number of tool calls.
        output_kb: greatest length of the printed text in KiB.
        source_kb: greatest length of the source in KiB.
        result_kb: size in KiB of one message to the parent (a result, the arguments of a call);
            all messages of a program together may have eight times this size.
    """

    time_s: float = 10.0
    memory_mb: int = 512
    calls: int = 500
    output_kb: int = 64
    source_kb: int = 64
    result_kb: int = 512

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise UsageError(f"limit {field.name} is {value!r}; it must be above 0")
