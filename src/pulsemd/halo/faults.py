"""Faults to inject into an exchange, to show that nothing depends on luck.

A description is ``kind key=value ...``, several joined by ``;``::

    delay rank=1 pulse=0 us=20000      sleep before each put of the pulse
    reorder rank=1                     send independent pulses in the opposite order
    duplicate rank=1 pulse=0           store the signal twice
    skip rank=1 pulse=0 wait=arrival   leave out one wait (then tests must fail)
    kill rank=1 epoch=5                SIGKILL at the start of the fifth forward

``rank``, ``pulse`` and ``channel`` may be left out: all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from pulsemd.base.errors import ConfigError

KINDS: Final = ("delay", "reorder", "duplicate", "skip", "kill")
WAITS: Final = ("arrival", "credit", "reverse_arrival", "reverse_credit", "forwarded")


@dataclass(frozen=True)
class Fault:
    """One fault; -1 and '' mean all."""

    kind: str
    rank: int = -1
    pulse: int = -1
    channel: str = ""
    us: int = 0
    epoch: int = 0
    wait: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"faults: kind {self.kind!r}; use one of {', '.join(KINDS)}")
        if (self.kind == "skip") != (self.wait in WAITS):
            raise ConfigError(
                f"faults: {self.kind} with wait={self.wait!r}; skip takes one of {', '.join(WAITS)}"
            )

    def concerns(self, rank: int, channel: str) -> bool:
        """Whether this fault is for a channel of a rank."""
        return self.rank in (-1, rank) and self.channel in ("", channel)

    def pulses(self) -> slice:
        """The pulses concerned."""
        return slice(None) if self.pulse < 0 else slice(self.pulse, self.pulse + 1)


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Faults of a description.

    Raises
    ------
    ConfigError
        If it cannot be understood.
    """
    return tuple(_parse(part) for part in text.split(";") if part.strip())


def _parse(text: str) -> Fault:
    kind, *settings = text.split()
    types = {field.name: field.type for field in fields(Fault)}
    values: dict[str, str | int] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in types or key == "kind":
            raise ConfigError(f"faults: {setting!r} in {text!r}; known: {', '.join(list(types)[1:])}")
        try:
            values[key] = int(value) if types[key] == "int" else value
        except ValueError:
            raise ConfigError(f"faults: {setting!r} in {text!r} is not a whole number") from None
    return Fault(kind, **values)  # type: ignore[arg-type]
