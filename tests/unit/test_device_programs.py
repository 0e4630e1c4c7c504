"""Text and compilation of CUDA programs, without a GPU."""

import importlib.util
import sys

import pytest

from pair_potentials import POTENTIALS
from pulsemd.base.cache import cache_folder
from pulsemd.base.errors import ConfigError, TransportError
from pulsemd.device import compile_all
from pulsemd.device.cuda import find_device_problem
from pulsemd.device.program import CudaProgram, compile_program, program_text
from pulsemd.kernels.nonbonded.cuda_programs import pair_program, prune_program
from pulsemd.kernels.nonbonded.spec import KernelSpec

needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None,
    reason="cuda-core is not installed",
)


def small(text, **options):
    """A program that exists only as generated text."""
    return CudaProgram("pulsemd.device", "small.cu", generated=(("small.cu", text),), **options)


def test_text_holds_the_macros_and_each_header_once():
    program = CudaProgram("pulsemd.kernels.search", "scan_bins.cu", (("CHOICE", 3),))
    text = program_text(program)
    assert text.startswith("#define CHOICE 3\n")
    assert '#include "' not in text
    assert text.count("struct ColumnGrid {") == text.count("enum Counter {") == 1


def test_headers_are_found_in_generated_text_first():
    program = CudaProgram(
        "pulsemd.device", "a.cu", generated=(("a.cu", '#include "b.cuh"\n'), ("b.cuh", "int here;"))
    )
    assert program_text(program) == "int here;\n"


def test_a_missing_header_is_named_with_the_places_searched():
    with pytest.raises(FileNotFoundError, match=r"no header absent\.cuh in pulsemd\.device"):
        program_text(small('#include "absent.cuh"\n'))


def test_variants_differ_in_text():
    spec = KernelSpec("fast", "geometric", "relative", True, False)
    exact = KernelSpec("reproducible", "geometric", "pairwise", True, False)
    programs = [pair_program(spec), prune_program(spec), pair_program(exact)]
    assert len({program_text(program) for program in programs}) == 3
    assert [program.exact for program in programs] == [False, False, True]


def test_every_kernel_package_lists_its_programs():
    files = {program.file for program in compile_all.all_programs()}
    assert {"pair_forces.cu", "list_clusters.cu", "bin_atoms.cu"} <= files


@needs_compiler
def test_a_program_is_compiled_once_and_then_read_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PULSEMD_CACHE_DIR", str(tmp_path))
    program = small('extern "C" __global__ void one(float* a) { *a = 1.0f; }')
    first = compile_program(program, "sm_90")
    stored = [
        path
        for path in cache_folder("cuda").rglob("*")
        if path.is_file() and path.stat().st_size == len(first)
    ]
    assert len(stored) == 1
    assert stored[0].read_bytes() == first == compile_program(program, "sm_90")
    assert compile_program(program, "sm_80") != first


@needs_compiler
@pytest.mark.parametrize("precision", ["fast", "reproducible"])
def test_a_pair_potential_in_python_compiles(precision):
    formula = POTENTIALS["buckingham"].formula
    spec = KernelSpec(precision, "table", "relative", True, True, formula, shifted=True)
    assert compile_program(pair_program(spec), "sm_90")


@needs_compiler
def test_a_cache_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PULSEMD_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="set PULSEMD_CACHE_DIR to a folder that can be written"):
        compile_program(small(""), "sm_90")


@needs_compiler
def test_compile_all_names_the_program_that_fails(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PULSEMD_CACHE_DIR", str(tmp_path))
    programs = [small('extern "C" __global__ void good() {}'), small("nonsense", defines=(("WHICH", 7),))]
    monkeypatch.setattr(compile_all, "all_programs", lambda: programs)
    assert compile_all.main(["--arch", "sm_90"]) == 1
    output = capsys.readouterr()
    assert "1 of 2 CUDA programs compiled" in output.out
    assert "sm_90 small.cu WHICH=7" in output.err


def test_absence_of_a_device_is_explained_in_one_sentence():
    problem = find_device_problem()
    if problem is None:
        pytest.skip("there is a device")
    assert "--device" not in problem
    assert "install pulsemd[cuda]" in problem or "run where a" in problem


def test_the_compiler_missing_is_a_request_that_cannot_be_met(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(TransportError, match=r"install pulsemd\[cuda\]"):
        compile_program(small(""), "sm_90")


def test_a_machine_without_a_driver_says_so_and_no_more(monkeypatch):
    from pulsemd.base.errors import TransportError
    from pulsemd.engine import device
    from pulsemd.engine.options import RunOptions

    monkeypatch.setattr(device, "has_driver", lambda: False)
    for ranks in (1, 2):
        chosen = device.choose_device(RunOptions(ranks=ranks, device="auto"))
        assert (chosen.device, chosen.device_reason) == ("cpu", "this machine has no NVIDIA driver")
        with pytest.raises(TransportError, match="no NVIDIA driver; use --device cpu"):
            device.choose_device(RunOptions(ranks=ranks, device="cuda"))
