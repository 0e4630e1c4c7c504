"""Structure files: every kind of file users bring, good and bad."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsemd.base.errors import InputError
from pulsemd.io.gromacs import read_gro, write_gro
from pulsemd.io.gromacs.decimals import decode, encode
from pulsemd.topology.expand import build_topology
from pulsemd.topology.records import MoleculeType, Topology

DATA = Path(__file__).parent / "data" / "gro"
ATOM = "    1SOL     OW    1   0.100   0.200   0.300"
BOX = "   3.00000   3.00000   3.00000"


def written(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "conf.gro"
    path.write_bytes((end.join(lines) + end).encode())
    return path


def argon(n: int) -> Topology:
    """Topology of n atoms, each a molecule of its own."""
    none = np.zeros(0, np.int32)
    one = np.ones(1)
    kind = MoleculeType(
        name="AR",
        atom_name=("AR",),
        residue_name=("ARGON",),
        residue_number=np.ones(1, np.int32),
        residue_index=np.zeros(1, np.int32),
        type_index=np.zeros(1, np.int32),
        charge=0 * one,
        mass=one,
        exclusion_offset=np.zeros(2, np.int64),
        exclusion_atoms=none,
        settle_atoms=none.reshape(0, 3),
        settle_parameters=np.zeros((0, 2)),
        group_offset=np.arange(2),
        group_atoms=np.zeros(1, np.int32),
        terms={},
    )
    return build_topology("argon", ["AR"], [kind], [(0, n)])


@pytest.mark.parametrize("name", ["ok", "crlf", "hiprec", "tric", "utf8", "vel_partial"])
def test_gro_good_file_accepted(name: str) -> None:
    frame = read_gro(DATA / f"{name}.gro")
    expected = [0.1234567, 0.2345678, 0.3456789] if name == "hiprec" else [0.1, 0.2, 0.3]
    assert frame.positions[0].tolist() == expected
    assert frame.atom_name[0] == b"OW"
    assert frame.residue_name[0] == b"SOL"


@pytest.mark.parametrize(
    ("name", "line"),
    [("empty", 1), ("nan", 3), ("natoms_more", 2), ("neg", 3), ("nobox", 2), ("zero_atoms", 2)],
)
def test_gro_bad_file_refused_with_line(name: str, line: int) -> None:
    path = DATA / f"{name}.gro"
    with pytest.raises(InputError) as caught:
        read_gro(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_gro_triclinic_box_has_gmx_order() -> None:
    box = read_gro(DATA / "tric.gro").box
    assert box.tolist() == [[8.0017, 0, 0], [0, 8.0017, 0], [4.00085, 4.00085, 5.65806]]


def test_gro_nine_box_numbers_fill_rows(tmp_path: Path) -> None:
    path = written(tmp_path, "t", "1", ATOM, "51 62 73 12 13 21 23 31 32")
    assert read_gro(path).box.tolist() == [[51, 12, 13], [21, 62, 23], [31, 32, 73]]


def test_gro_utf8_title_kept() -> None:
    assert read_gro(DATA / "utf8.gro").title == "Grüße — 水"


def test_gro_velocities_of_some_atoms_zero_filled_with_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        frame = read_gro(DATA / "vel_partial.gro")
    assert frame.velocities is not None
    assert frame.velocities.tolist() == [[1, 2, 3], [0, 0, 0]]
    assert "1 of 2 atoms have no velocity" in caplog.text


def test_gro_velocities_of_last_atom_only_zero_filled(tmp_path: Path) -> None:
    path = written(tmp_path, "t", "2", ATOM, ATOM + "  1.0000 -2.0000  0.5000", BOX)
    velocities = read_gro(path).velocities
    assert velocities is not None
    assert velocities.tolist() == [[0, 0, 0], [1, -2, 0.5]]


def test_gro_columns_glued_together_read_by_width(tmp_path: Path) -> None:
    path = written(tmp_path, "t", "2", "    1SOL     OW    1-999.999-123.4569876.543", ATOM, BOX)
    assert read_gro(path).positions[0].tolist() == [-999.999, -123.456, 9876.543]


def test_gro_wrapped_numbers_and_glued_names_read(tmp_path: Path) -> None:
    path = written(
        tmp_path, "t", "2", "99999WATERHW12399999   0.100   0.200   0.300", "    0" + ATOM[5:], BOX
    )
    frame = read_gro(path)
    assert (frame.residue_name[0], frame.atom_name[0]) == (b"WATER", b"HW123")


def test_gro_without_final_newline_read(tmp_path: Path) -> None:
    path = tmp_path / "conf.gro"
    path.write_text("\n".join(["t", "1", ATOM, BOX]))
    assert read_gro(path).box[2, 2] == 3.0


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (["t", "1", ATOM, ATOM, BOX], 4, "number of atoms in line 2"),
        (["t", "3", ATOM, ATOM, BOX], 2, "announces 3 atoms"),
        (["t", "1", ATOM, "0 0 0"], 4, "no volume"),
        (["t", "1", ATOM, "3 3 nan"], 4, "no volume"),
        (["t", "1", ATOM, "3 3"], 4, "3 or 9 numbers"),
        (["t", "1", ATOM, BOX, "t", "1", ATOM, BOX], 5, "several frames"),
        (["t", "-1", ATOM, BOX], 2, "the number of atoms is -1"),
        (["t", "one", ATOM, BOX], 2, "'one'"),
        (["t"], 2, "number of atoms is expected"),
        (["t", "2", ATOM, ATOM[:36], BOX], 4, r"SOL 1 OW \(atom 2\)"),
        (["t", "2", ATOM, ATOM.replace("0.200", "  inf"), BOX], 4, "not three finite numbers"),
        (["t", "2", ATOM, ATOM.replace("0.200", "0.2e0"), BOX], 4, "not three finite numbers"),
        (["t", "2", ATOM, ATOM.replace("0.200", "0 200"), BOX], 4, "not three finite numbers"),
        (["t", "2", ATOM, ATOM.replace("   0.200", " 0.20000"), BOX], 4, "not three finite numbers"),
        (["t", "2", ATOM, ATOM.replace(" 0.200", "-0-200"), BOX], 4, "not three finite numbers"),
        (["t", "1", ATOM + "  1.0000  nan     3.0000", BOX], 3, "not three finite numbers"),
        (["t", "1", ATOM.replace("  0.200", " 0.2000"), BOX], 3, "evenly spaced"),
        (["t", "1", ATOM[:20] + "  nowhere", BOX], 3, "three numbers"),
    ],
)
def test_gro_malformed_text_refused_with_line(
    tmp_path: Path, lines: list[str], line: int, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_gro(written(tmp_path, *lines))
    assert caught.value.line == line


@pytest.mark.parametrize("content", [b"TITLE\nREMARK    BOX\nATOM\n", bytes(range(256))])
def test_gro_other_formats_are_refused_with_what_converts_them(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "conf.pdb"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is no \.gro file.* gmx editconf -f \S+conf.pdb -o conf.gro"):
        read_gro(path)


def test_gro_missing_file_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.gro: cannot be read"):
        read_gro(tmp_path / "nowhere.gro")


def test_gro_lines_of_unequal_length_read_as_equal_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-9, 9, (500, 3))
    path = tmp_path / "even.gro"
    write_gro(path, argon(500), x, None, 5 * np.eye(3), "t")
    lines = path.read_text().split("\n")
    for i in range(2, 400, 7):
        lines[i] += " " * (i % 5)
    uneven = read_gro(written(tmp_path, *lines))
    assert np.array_equal(uneven.positions, read_gro(path).positions)
    assert uneven.velocities is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    precision=st.integers(1, 9),
    rows=st.lists(st.tuples(*[st.floats(-999, 9999)] * 3), min_size=1, max_size=5),
    with_velocities=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_gro_round_trip_any_precision_is_exact(
    tmp_path: Path, precision: int, rows: list[tuple[float, float, float]], with_velocities: bool, end: str
) -> None:
    x = np.round(np.array(rows), precision)
    x = x[(x > -999).all(axis=1) & (x < 9999).all(axis=1)]
    if not len(x):
        return
    v = np.round(x / 100, precision + 1) if with_velocities else None
    path = tmp_path / "trip.gro"
    write_gro(path, argon(len(x)), x, v, np.diag([3.0, 4.0, 5.5]), "title", precision)
    path.write_bytes(path.read_bytes().replace(b"\n", end.encode()))
    frame = read_gro(path)
    assert np.array_equal(frame.positions, x)
    assert (frame.velocities is None) == (v is None)
    if v is not None:
        assert np.array_equal(frame.velocities, v.astype(np.float32))


@given(st.floats(-900, 9000), st.integers(1, 6))
def test_gro_numbers_written_as_printf_does(value: float, decimals: int) -> None:
    columns, fits = encode(np.array([value]), decimals + 5, decimals)
    assert fits.all()
    text = columns[0].tobytes().decode()
    assert len(text) == decimals + 5
    assert abs(float(text) - value) <= 0.5000001 * 10.0**-decimals
    expected = f"{float(text):{decimals + 5}.{decimals}f}"
    assert text == expected.replace("-0." + "0" * decimals, " 0." + "0" * decimals)


@given(st.from_regex(r"[ \-0-9]{4}[.0 ][0-9e+ ]{3}", fullmatch=True))
def test_gro_numbers_are_accepted_in_one_form_alone_and_have_the_value_of_float(text: str) -> None:
    values, valid = decode(np.frombuffer(text.encode(), np.uint8).reshape(1, 8), 4)
    assert bool(valid[0]) == (re.fullmatch(r" *-?[0-9]*\.[0-9]{3}", text) is not None)
    if valid[0]:
        assert values[0] == float(text)


@pytest.mark.parametrize("text", ["   1.234", "  -0.500", "    .125", "9999.999", "-999.001"])
def test_gro_numbers_in_columns_are_read_as_float_does(text: str) -> None:
    values, valid = decode(np.frombuffer(text.encode(), np.uint8).reshape(1, 8), 4)
    assert valid.all()
    assert values[0] == float(text)


def test_gro_writer_wraps_numbers_at_99999(tmp_path: Path) -> None:
    n = 100_002
    path = tmp_path / "many.gro"
    write_gro(path, argon(n), np.zeros((n, 3)), None, np.eye(3), "t")
    lines = path.read_text().split("\n")
    assert lines[1] == str(n)
    assert lines[100_000] == "99999ARGON   AR99999   0.000   0.000   0.000"
    assert lines[100_001] == "    0ARGON   AR    0   0.000   0.000   0.000"
    assert lines[100_002] == "    1ARGON   AR    1   0.000   0.000   0.000"
    assert len(read_gro(path).positions) == n


@pytest.mark.parametrize("value", [np.nan, np.inf, -1000.0, 10000.0])
def test_gro_writer_number_too_wide_refused_by_atom(tmp_path: Path, value: float) -> None:
    x = np.zeros((3, 3))
    x[1, 2] = value
    with pytest.raises(InputError, match=r"ARGON 2 AR \(atom 2\)"):
        write_gro(tmp_path / "wide.gro", argon(3), x, None, np.eye(3), "t")


def test_gro_writer_triclinic_box_round_trips(tmp_path: Path) -> None:
    box = np.array([[5.0, 0, 0], [1.25, 4, 0], [-2, 0.5, 3]])
    write_gro(tmp_path / "t.gro", argon(1), np.zeros((1, 3)), None, box, "two\nlines")
    frame = read_gro(tmp_path / "t.gro")
    assert np.array_equal(frame.box, box)
    assert frame.title == "two lines"
