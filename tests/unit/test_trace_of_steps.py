"""Traces: the file, the step taken out of it, its waits and its picture."""

from __future__ import annotations

import csv
from xml.etree import ElementTree

import pytest

from pulsemd.base.errors import InputError
from pulsemd.cli.main import main
from pulsemd.report.timeline import describe_step, draw_timeline, panel_of
from pulsemd.report.trace import (
    Span,
    critical_path,
    exposed_waits,
    read_trace,
    spans_of,
    typical_exposure,
    typical_step,
    write_trace,
)
from pulsemd.schedule.phase import Phase, PhaseTimer
from pulsemd.schedule.trace import Event

STEP = [
    ("halo.forward.begin", "ghosts", 0.0, 4.0),
    ("forces.local", "main", 0.0, 10.0),
    ("forces.nonlocal", "ghosts", 4.0, 9.0),
    ("halo.reverse.begin", "ghosts", 13.5, 1.5),
    ("update", "main", 15.0, 5.0),
]


def trace(n_steps, late=0.0):
    """Steps of 20 us, the first at `late`."""
    return [
        Event(name, lane, 7.0 + 1e-6 * (late + start + 20.0 * k), 1e-6 * duration)
        for k in range(n_steps)
        for name, lane, start, duration in STEP
    ]


def test_a_trace_comes_back_from_its_file_and_yields_a_step_of_every_process(tmp_path):
    write_trace(tmp_path / "trace.json", [trace(5), None, trace(5, late=1.0)], {"ranks": 3})
    spans, about = read_trace(tmp_path / "trace.json")
    assert about == {"ranks": 3}
    step = typical_step(spans)
    assert {span.process for span in step} == {0, 2}
    mine = sorted((s.name, s.lane, round(s.start, 6), round(s.duration, 6)) for s in step if s.process == 0)
    assert mine == sorted(STEP)


def test_exposed_waits_are_exchanges_while_nothing_computes_and_ends_of_exchanges_on_a_host():
    step = [Span(name, lane, 0, start, duration) for name, lane, start, duration in STEP]
    step += [Span("halo.forward.end", "host", 1, 3.0, 2.5), Span("update", "host", 1, 6.0, 1.0)]
    assert exposed_waits(step) == {0: pytest.approx(1.5), 1: pytest.approx(2.5)}


def test_typical_exposure_is_that_of_most_steps():
    interrupted = [*trace(5), *trace(2, late=5000.0)]
    found = typical_exposure(spans_of([interrupted, trace(4, late=3.0)]))
    assert (found.step, found.exposed, found.idle) == pytest.approx((20.0, 1.5, 2.0))


def test_what_the_host_does_in_exchanges_is_no_phase_of_the_device():
    host = [Event("pulse 0 transfer", "exchange", 7.0, 1.0), Event("halo.forward.end", "host", 7.0, 1.0)]
    assert typical_exposure(spans_of([trace(5) + host])).exposed == pytest.approx(1.5)


def test_the_critical_path_goes_through_what_ended_last_before_each_phase():
    step = [Span(name, lane, 0, start, duration) for name, lane, start, duration in STEP]
    assert [span.name for span in critical_path(step)] == [
        "halo.forward.begin",
        "forces.nonlocal",
        "halo.reverse.begin",
        "update",
    ]


def test_the_picture_is_xml_with_a_row_for_each_lane():
    step = [Span(name, lane, 0, start, duration) for name, lane, start, duration in STEP]
    drawing = draw_timeline([panel_of("a < b", step), panel_of("other", step)])
    texts = [element.text for element in ElementTree.fromstring(drawing.svg()).iter()]
    assert {"a < b", "other", "rank 0  GPU, main stream", "rank 0  GPU, ghost stream"} <= set(texts)
    assert describe_step(step)["us"] == pytest.approx(20.0)


def test_picture_of_another_format_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["timeline", "out", "-o", "x.pdf"])
    assert "'x.pdf' does not end in .svg or .png" in capsys.readouterr().err


def test_timelines_of_two_traces_are_one_picture_and_one_table(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_trace(tmp_path / name / "trace.json", [trace(5), trace(5)], {"run": name})
    picture, table = tmp_path / "both.png", tmp_path / "both.csv"
    runs = [str(tmp_path / "a"), str(tmp_path / "b" / "trace.json")]
    assert main(["timeline", *runs, "-o", str(picture), "--table", str(table)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(table.open()))
    assert {row["title"] for row in rows} == {"run a", "run b"}
    assert len(rows) == 4 * len(STEP)
    assert sum(int(row["critical"]) for row in rows) >= 8
    assert "rank   1 waits 1.5 us of 20.0 us" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_a_file_that_is_no_trace_is_refused(tmp_path, content):
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError):
        read_trace(path)


def test_a_timer_keeps_the_last_calls_only():
    timer = PhaseTimer(trace=True)
    timer.run(Phase(str(k), lambda: None) for k in range(1500))
    assert (len(timer.events), timer.events[-1][0]) == (1000, "1499")
