"""The topology preprocessor: includes, macros, conditions, continuation, comments, and where lines come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsemd.base.errors import TopologyError
from pulsemd.io.gromacs.preprocessor import library_dirs, preprocess


def lines(tmp_path: Path, text: str, **options: object) -> list[tuple[str, str, int]]:
    (tmp_path / "main.top").write_text(text)
    found = preprocess(tmp_path / "main.top", **options)  # type: ignore[arg-type]
    return [(line.text, Path(line.file).name, line.number) for line in found]


def texts(tmp_path: Path, text: str, **options: object) -> list[str]:
    return [line[0] for line in lines(tmp_path, text, **options)]


def test_preprocessor_comments_and_blank_lines_dropped_with_line_numbers_kept(tmp_path: Path) -> None:
    assert lines(tmp_path, "; a\n\n  one ; b\n\ttwo\t2\r\n") == [
        ("one", "main.top", 3),
        ("two 2", "main.top", 4),
    ]


def test_preprocessor_continuation_joined_and_numbered_by_first_line(tmp_path: Path) -> None:
    assert lines(tmp_path, "x\n1 \\\n2 \\  \r\n3\n4\n") == [
        ("x", "main.top", 1),
        ("1  2  3", "main.top", 2),
        ("4", "main.top", 5),
    ]


def test_preprocessor_continuation_of_comment_stays_comment(tmp_path: Path) -> None:
    assert texts(tmp_path, "1 ; note \\\nmore note\n2\n") == ["1", "2"]


def test_preprocessor_macro_value_comment_not_part_of_value(tmp_path: Path) -> None:
    assert texts(tmp_path, "#define gb_1 0.1 5e6 ; H - OA\n1 2 gb_1 7\n") == ["1 2 0.1 5e6 7"]


def test_preprocessor_comment_behind_condition_not_part_of_its_name(tmp_path: Path) -> None:
    assert texts(tmp_path, "#define A\n#ifdef A ; note\nyes\n#endif ; A\n") == ["yes"]


def test_preprocessor_macro_replaced_only_as_whole_word(tmp_path: Path) -> None:
    assert texts(tmp_path, "#define a 1\na ab a_b b-a\n") == ["1 ab a_b b-1"]


def test_preprocessor_macro_without_value_left_alone(tmp_path: Path) -> None:
    assert texts(tmp_path, "#define FLEX\nFLEX 1\n", define=["POSRES"]) == ["FLEX 1"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_preprocessor_macro_within_macro_replaced_in_any_order(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    defines = ["#define OUTER INNER 2\n", "#define INNER 1\n"]
    assert texts(tmp_path, defines[order[0]] + defines[order[1]] + "OUTER\n") == ["1 2"]


def test_preprocessor_macro_redefined_takes_last_and_undefined_none(tmp_path: Path) -> None:
    assert texts(tmp_path, "#define A 1\nA\n#define A 2\nA\n#undef A\nA\n") == ["1", "2", "A"]


def test_preprocessor_macro_given_by_settings_replaced(tmp_path: Path) -> None:
    assert texts(tmp_path, "FC\n#ifdef FC\nyes\n#endif\n", define=["FC=1000"]) == ["1000", "yes"]


def test_preprocessor_macros_of_each_other_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"main\.top:3: macros that are defined by each other"):
        texts(tmp_path, "#define A B\n#define B A\nA\n")


@pytest.mark.parametrize(
    ("define", "expected"), [([], ["else", "no"]), (["A"], ["a", "no"]), (["A", "B"], ["a", "ab", "yes"])]
)
def test_preprocessor_nested_conditions_choose_one_branch(
    tmp_path: Path, define: list[str], expected: list[str]
) -> None:
    text = "#ifdef A ; c\na\n# ifdef B\nab\n# endif\n#else\nelse\n#endif\n#ifndef B\nno\n#else\nyes\n#endif\n"
    assert texts(tmp_path, text, define=define) == expected


def test_preprocessor_false_branch_ignores_missing_files_and_nested_else(tmp_path: Path) -> None:
    hidden = '#include "nowhere.itp"\n#define Y\n#ifdef Z\n#else\nhidden\n#endif\n#pragma\n'
    text = f"#ifdef X\n{hidden}#endif\n#ifdef Y\ny\n#endif\nend\n"
    assert texts(tmp_path, text) == ["end"]


def test_preprocessor_include_keeps_file_and_line_and_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.itp").write_text('A1\n#include "b.itp"\nA3\n')
    (tmp_path / "sub" / "b.itp").write_text("\nB2\n#define SEEN\n")
    text = 'M1\n#include "sub/a.itp" ; comment\n#ifdef SEEN\nM4\n#endif\n'
    assert lines(tmp_path, text) == [
        ("M1", "main.top", 1),
        ("A1", "a.itp", 1),
        ("B2", "b.itp", 2),
        ("A3", "a.itp", 3),
        ("M4", "main.top", 4),
    ]


def test_preprocessor_include_searched_beside_file_then_dirs_then_gmxlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("given", "lib"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lib" / "x.itp").write_text("lib\n")
    (tmp_path / "lib" / "y.itp").write_text("lib\n")
    (tmp_path / "given" / "x.itp").write_text("given\n")
    monkeypatch.setenv("GMXLIB", str(tmp_path / "lib"))
    assert library_dirs()[0] == tmp_path / "lib"
    text = '#include <x.itp>\n#include "y.itp"\n'
    assert texts(tmp_path, text, include_dirs=[tmp_path / "given"]) == ["given", "lib"]
    (tmp_path / "x.itp").write_text("beside\n")
    assert texts(tmp_path, text, include_dirs=[tmp_path / "given"])[0] == "beside"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('a\n#include "nowhere.itp"\n', 2, "nowhere.itp not found in .*GMXLIB"),
        ("#include nowhere.itp\n", 1, "needs"),
        ('a\n#include "main.top"\n', 2, "cycle"),
        ("a\n#ifdef X\n", 2, "without #endif"),
        ("#ifdef X\n#else\n#else\n#endif\n", 3, "second #else"),
        ("#endif\n", 1, "#endif without"),
        ("#else\n", 1, "#else without"),
        ("#ifdef\n#endif\n", 1, "needs a name"),
        ("#if 1\n#endif\n", 1, "unknown preprocessor directive #if"),
        ("#ifdef A B\n#endif\n", 1, "#ifdef takes one name, not 'A B'"),
        ("#ifndef A||B\n#endif\n#undef A, B\n", 3, "#undef takes one name, not 'A, B'"),
    ],
)
def test_preprocessor_error_refused_with_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as caught:
        texts(tmp_path, text)
    assert caught.value.line == line


def test_preprocessor_include_guard_allows_including_twice(tmp_path: Path) -> None:
    (tmp_path / "g.itp").write_text("#ifndef G\n#define G\ng\n#endif\n")
    assert texts(tmp_path, '#include "g.itp"\n#include "g.itp"\n') == ["g"]


def test_preprocessor_missing_topology_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"nowhere\.top: cannot be read"):
        list(preprocess(tmp_path / "nowhere.top"))


def test_preprocess_macro_nobody_asks_for_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.top"
    path.write_text("#ifdef NO\n#ifdef A\n#endif\n#endif\n#ifndef B\n#endif\nC row\n")
    assert [line.text for line in preprocess(path, ["A", "B", "C=3", "POSRESS"])] == ["3 row"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: define = -DPOSRESS has no effect: nothing there asks for POSRESS"
    ]
