"""The energy table: exact values, whole lines, nothing overwritten."""

from __future__ import annotations

import errno

import pytest

from pulsemd.base.errors import InputError, OutputError
from pulsemd.io.energies import EnergyWriter, read_energies

COLUMNS = ("lj", "coulomb", "potential", "kinetic", "temperature")


def values(start: float) -> dict[str, float]:
    return {name: start + index / 3 for index, name in enumerate(COLUMNS)}


def test_energies_read_back_are_the_same_floats(tmp_path):
    with EnergyWriter(tmp_path / "energies.csv", COLUMNS) as writer:
        writer.write(0, 0.0, values(-48211.1234567890123))
        writer.write(100, 0.2, values(1e-30))
    table = read_energies(tmp_path / "energies.csv")
    assert tuple(table) == ("step", "time_ps", *COLUMNS)
    assert table["step"].tolist() == [0, 100]
    assert table["time_ps"].tolist() == [0.0, 0.2]
    for name in COLUMNS:
        assert table[name].tolist() == [values(-48211.1234567890123)[name], values(1e-30)[name]]


def test_energies_line_is_on_disk_before_the_file_is_closed(tmp_path):
    writer = EnergyWriter(tmp_path / "energies.csv", COLUMNS)
    writer.write(0, 0.0, values(1.0))
    text = (tmp_path / "energies.csv").read_text()
    writer.close()
    assert text.endswith("\n")
    assert len(text.splitlines()) == 2


@pytest.mark.parametrize("change", ["missing", "unknown"])
def test_energies_other_columns_are_refused_by_name(tmp_path, change):
    given = values(1.0)
    if change == "missing":
        del given["kinetic"]
    else:
        given["entropy"] = 1.0
    with (
        EnergyWriter(tmp_path / "energies.csv", COLUMNS) as writer,
        pytest.raises(ValueError, match=r"kinetic|entropy"),
    ):
        writer.write(0, 0.0, given)
    assert len((tmp_path / "energies.csv").read_text().splitlines()) == 1


def test_energies_existing_file_is_not_overwritten(tmp_path):
    (tmp_path / "energies.csv").write_text("precious")
    with pytest.raises(InputError, match=r"energies.csv: exists already"):
        EnergyWriter(tmp_path / "energies.csv", COLUMNS)
    assert (tmp_path / "energies.csv").read_text() == "precious"


def test_energies_disk_full_raises_and_leaves_whole_lines(tmp_path):
    class FullDisk:
        """A file that takes ten bytes of a record and then has no room."""

        def __init__(self, file):
            self.file, self.calls = file, 0

        def write(self, content):
            self.calls += 1
            if self.calls > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(content[:10])

        def __getattr__(self, name):
            return getattr(self.file, name)

    writer = EnergyWriter(tmp_path / "energies.csv", COLUMNS)
    writer.write(0, 0.0, values(1.0))
    before = (tmp_path / "energies.csv").read_bytes()
    writer._file = FullDisk(writer._file)
    with pytest.raises(OutputError, match=r"energies.csv: cannot be written: No space left"):
        writer.write(100, 0.2, values(2.0))
    writer.close()
    assert (tmp_path / "energies.csv").read_bytes() == before


def test_energies_cut_line_is_refused_by_number(tmp_path):
    with EnergyWriter(tmp_path / "energies.csv", COLUMNS) as writer:
        writer.write(0, 0.0, values(1.0))
    path = tmp_path / "energies.csv"
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match=r"energies.csv:2: .* fields"):
        read_energies(path)


def test_energies_of_a_running_run_cannot_be_written_by_another(tmp_path):
    with EnergyWriter(tmp_path / "energies.csv", COLUMNS) as writer:
        writer.write(0, 0.0, values(1.0))
        with pytest.raises(OutputError, match="another run is writing to it"):
            EnergyWriter(tmp_path / "energies.csv", COLUMNS, before=10)
    EnergyWriter(tmp_path / "energies.csv", COLUMNS, before=10).close()


@pytest.mark.parametrize(
    ("held", "due", "refused"), [(3, 200, ""), (2, 200, "ends with step 100"), (0, 0, "no whole")]
)
def test_energies_that_lack_lines_are_not_continued(tmp_path, held, due, refused):
    with EnergyWriter(tmp_path / "energies.csv", COLUMNS) as writer:
        for k in range(held):
            writer.write(100 * k, 0.2 * k, values(1.0))
    before = (tmp_path / "energies.csv").read_bytes()
    if refused:
        with pytest.raises(InputError, match=f"{refused}.*checkpoint's step 250 are missing"):
            EnergyWriter(tmp_path / "energies.csv", COLUMNS, 250, due)
    else:
        EnergyWriter(tmp_path / "energies.csv", COLUMNS, 250, due).close()
    assert (tmp_path / "energies.csv").read_bytes() == before


def test_energies_of_a_longer_interval_that_has_just_changed_are_continued(tmp_path):
    """Every 10 steps since 110, as a checkpoint of step 125 has it, but lines every 100 until then."""
    with EnergyWriter(tmp_path / "energies.csv", COLUMNS) as writer:
        for step in (0, 100):
            writer.write(step, 0.002 * step, values(1.0))
    EnergyWriter(tmp_path / "energies.csv", COLUMNS, 125, 120).close()
