"""Tables of docs/explanation/steps_on_several_gpus.md, made from results of ``pulsemd bench md``.

    python benchmarks/tables_md_gpus.py CSV... [--page docs/explanation/steps_on_several_gpus.md]

Without ``--page`` they are printed; with it they take the place of what stands between the two markers of the page.
Where a case was measured more than once, the last row counts.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

Row = dict[str, str]


class Case(NamedTuple):
    """How rows of several sizes were measured; ``graph``: '1' if steps are a graph."""

    system: str
    ranks: int
    grid: str
    transport: str
    plan: str
    graph: str


BEGIN: Final = "<!-- made by benchmarks/tables_md_gpus.py -->"
END: Final = "<!-- end of what it made -->"
LADDER: Final = (
    "loopback",
    "mpi",
    "nccl",
    "nvshmem-stream",
    "nvshmem-pulse",
    "nvshmem-fused",
    "nvshmem-step",
)


def read_rows(paths: Iterable[Path]) -> dict[Case, dict[int, Row]]:
    """Measured rows by case and number of atoms, in the order of the ladder."""
    found: dict[Case, dict[int, Row]] = {}
    for path in paths:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["us_per_step"]:
                    case = Case(
                        row["system"],
                        int(row["n_ranks"]),
                        row["grid"],
                        row["transport"],
                        row["plan"],
                        row["graph"],
                    )
                    found.setdefault(case, {})[int(row["n_atoms"])] = row
    return dict(sorted(found.items(), key=lambda item: _place(item[0])))


def _place(case: Case) -> tuple[str | int, ...]:
    return case.system, case.ranks, case.grid, LADDER.index(case.transport), case.plan, case.graph


def as_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def sizes_of(cases: dict[Case, dict[int, Row]]) -> list[int]:
    return sorted({size for sizes in cases.values() for size in sizes})


def kilo(size: int) -> str:
    return f"{size / 1000:.0f}k"


def name_of(case: Case) -> str:
    """A transport, and how its steps are launched and its halo planned where that is not the usual way."""
    if case.ranks == 1:
        return "one GPU"
    takes_graphs = case.transport in ("nvshmem-pulse", "nvshmem-fused", "nvshmem-step")
    plan = ", staged plan" if case.plan == "staged" else ""
    return f"`{case.transport}`" + plan + (", no graph" if takes_graphs and case.graph == "0" else "")


def begin_of(case: Case) -> list[str]:
    """System, ranks and how they lie."""
    return [case.system, f"{case.ranks} as {case.grid}" if case.ranks > 1 else "1"]


def times(cases: dict[Case, dict[int, Row]]) -> str:
    """us of a step by transport and size."""
    sizes = sizes_of(cases)
    lines = [
        [*begin_of(case), name_of(case)]
        + [found[size]["us_per_step"] if size in found else "" for size in sizes]
        for case, found in cases.items()
    ]
    return as_table(["system", "ranks", "transport", *map(kilo, sizes)], lines)


def gains(cases: dict[Case, dict[int, Row]], best: str = "nvshmem-fused") -> str:
    """What `best` gains over MPI, in three parts."""
    lines = []
    for case, found in cases.items():
        if case.transport != "mpi":
            continue
        graph, launched = (cases.get(case._replace(transport=best, graph=g), {}) for g in ("1", "0"))
        for size in sorted(set(found) & set(graph) & set(launched)):
            mpi, plain, full = (rows[size] for rows in (found, launched, graph))
            between = [float(row["us_between_searches"]) for row in (mpi, plain, full)]
            total = [float(row["us_per_step"]) for row in (mpi, full)]
            lines.append(
                [
                    *(*begin_of(case), kilo(size), mpi["us_per_step"], full["us_per_step"]),
                    f"{float(mpi['us_searches']) - float(full['us_searches']):.1f}",
                    f"{between[0] - between[1]:.1f}",
                    f"{between[1] - between[2]:.1f}",
                    f"{total[0] / total[1]:.2f}",
                ]
            )
    head = ["system", "ranks", "atoms", "`mpi`", f"`{best}`", "searches", "exchange", "graph", "times faster"]
    return as_table(head, lines)


def waits(cases: dict[Case, dict[int, Row]]) -> str:
    """Exposed waits of traced steps: us of us."""
    traced = {
        case: rows
        for case, found in cases.items()
        if (rows := {size: row for size, row in found.items() if row.get("us_traced")})
    }
    sizes = sizes_of(traced)
    lines = [
        [*begin_of(case), name_of(case)]
        + [f"{found[n]['us_exposed'] or '–'} of {found[n]['us_traced']}" if n in found else "" for n in sizes]
        for case, found in traced.items()
    ]
    return as_table(["system", "ranks", "transport", *map(kilo, sizes)], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", type=Path, nargs="+", metavar="CSV")
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    cases = read_rows(args.tables)
    folder = args.page.parent if args.page else Path()
    sources = [f"[{path.stem}]({os.path.relpath(path, folder)})" for path in args.tables]
    parts = [
        f"From {', '.join(sources)}. Microseconds of a step:",
        times(cases),
        "What `nvshmem-fused` gains over `mpi`, us of a step, by searches, the exchange, and the graph:",
        gains(cases),
        "Exposed waits, us of a traced step:",
        waits(cases),
    ]
    text = "\n\n".join(parts)
    if args.page is None:
        print(text)
        return
    page = args.page.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    args.page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
