"""What of a search on the device has to hold so that the host need not look further."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pulsemd.base.errors import DomainError
from pulsemd.device.mirror import Array
from pulsemd.domain.gpu import DeviceDomains
from pulsemd.domain.verdict import HeldSteps, Row, Verdict, checks_of, columns_of
from pulsemd.engine.gpu_part import DevicePart
from pulsemd.kernels.search.gpu_layout import SUPERCLUSTER

if TYPE_CHECKING:
    from pulsemd.halo.device.transport import GpuTransport


class SearchVerdict:
    """Checks of a search by the device, on all ranks; collective to make.

    Parameters
    ----------
    transport : GpuTransport
    parts : sequence of DevicePart
    n_atoms : int
    terms : sequence of int
        Bonded terms of each kind and excluded pairs, of all ranks together.

    Attributes
    ----------
    totals : device array
        Read by the host after a search, for `is_usual`.
    can_hold : bool
        Whether steps that were launched behind a search can be made to do nothing; the same on all ranks.
    """

    def __init__(
        self, transport: GpuTransport, parts: Sequence[DevicePart], n_atoms: int, terms: Sequence[int]
    ) -> None:
        self._transport, self._parts = transport, parts
        self._expected = [0, n_atoms, *terms]
        self._verdict = Verdict(transport, len(self._expected) - 1)
        self.totals = self._verdict.totals
        self.reject, self.launch = self._verdict.reject, self._verdict.launch
        self.can_hold = all(part.goes_by_counts for part in parts)
        self._held: HeldSteps | None = None

    def bind(self, domains: DeviceDomains) -> None:
        """Judge searches by these domains; none is usual before `expect`."""
        self._found = domains.found
        n_checks = self._parts[0].pairs.pairs.counters.size + self._found.shape[1] + 4
        self._verdict.bind([self._columns(k) for k in range(len(self._parts))], n_checks)
        if self.can_hold:
            counts = [array for part in self._parts for array in part.counts_of_work]
            others = [array for part in self._parts for array in part.carried]
            self._held = HeldSteps(self._transport, self.totals, self._expected, counts, others)

    def hold(self) -> bool:
        """Launch what makes steps behind it do nothing if the search was not as usual; whether that exists."""
        if self._held is not None:
            self._held.hold()
        return self.can_hold

    def release(self) -> None:
        """After such a search: let steps work again, as if none had been launched."""
        if self._held is not None:
            self._held.release()

    def _columns(self, k: int) -> list[Row]:
        """Atoms that arrived, terms of each kind, excluded pairs."""
        part = self._parts[k]
        terms = columns_of(part.bonded.chosen) if part.bonded.n_terms else []
        pairs = part.exclusions.pairs_found.reshape(1, 1)
        return [*columns_of(self._found[k : k + 1, :1]), *terms, *columns_of(pairs)]

    def expect(self, owned: int, reach: float, sent: int, slots: int) -> None:
        """Make the checks of searches from now on, if the lists of all ranks here say what is usual.

        Parameters
        ----------
        owned, sent : int
            Most atoms of a rank, most rows of a pulse.
        reach : float, nm
            Of a group, at most.
        slots : int
            Most slots.
        """
        squared = int(np.array([reach**2], np.float32).view(np.int32)[0])
        most = [owned, squared, *[sent] * (self._found.shape[1] - 2)]
        checks = []
        for part, found in zip(self._parts, self._found, strict=True):
            usual = part.pairs.usual_counters
            if usual is None:
                return
            low, high = (bound.tolist() for bound in usual)
            high[0] = min(high[0], slots // SUPERCLUSTER)
            words: list[tuple[Any, int]] = [(self._transport.control_words[:1], 0)]
            words += [(part.pairs.error_word, 0), (part.bonded.error_word, 0), (part.update.error_word, -1)]
            checks.append(
                [
                    *checks_of(part.pairs.pairs.counters, low, high),
                    *checks_of(found, [0] * len(most), most),
                    *(check for word, well in words for check in checks_of(word, [well], [well])),
                ]
            )
        self._verdict.set(checks)

    def is_usual(self, totals: Array) -> bool:
        """Whether a search needs nothing more on any rank, and no rank failed before."""
        return bool(totals.tolist() == self._expected)


def check_terms(search: int, kinds: Sequence[str], found: list[int], expected: list[int]) -> None:
    """Every bonded term must belong to one rank, and every excluded pair.

    Raises
    ------
    DomainError
        If one does not.
    """
    if found != expected:
        wrong = ", ".join(
            f"{n} of {m} {kind}" for kind, n, m in zip(kinds, found, expected, strict=True) if n != m
        )
        raise DomainError(
            f"search {search}: all ranks together compute {wrong} terms; an atom has moved beyond the halo, so the "
            "simulation is unstable or the halo too narrow"
        )
