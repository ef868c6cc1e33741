"""Commands whose output goes to odd places: closed, full, a pipe nobody reads, plain ASCII."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.own_data import done, refused, write_npz

ROOT = Path(__file__).parents[2]


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which R is the command."""
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
            "R": f"{sys.executable} -m redunet",
            **environment,
        },
    )


def test_closed_output_is_one_line_and_nothing_is_done(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "d", range(20))
    result = shell(f"$R learn {tmp_path}/m {data} >&-")
    assert (result.returncode, result.stderr) == (
        2,
        "redunet: standard output is closed: send it to /dev/null to discard what is printed\n",
    )
    assert not (tmp_path / "m").exists()


def test_closed_errors_and_input_do_no_harm(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "d", range(20))
    result = shell(f"$R learn {tmp_path}/m {data} 2>&- <&-")
    assert result.stdout.startswith("Learnt 20 samples")
    assert result.returncode == 0
    assert "is intact" in done("verify", tmp_path / "m").stdout
    assert shell("$R dmeo 2>&-").returncode == 2
    assert shell("$R dmeo 2>/dev/full").returncode == 2


def test_a_full_disk_is_one_line_that_tells_what_became_of_the_model(tmp_path: Path) -> None:
    full = "redunet: cannot write to standard output: No space left on device; "
    data, model = write_npz(tmp_path / "d", range(20)), tmp_path / "m"
    result = shell(f"$R learn {model} {data} > /dev/full")
    assert (result.returncode, result.stderr) == (1, f"{full}{model} was saved before that\n")
    done("verify", model)
    for words in ("--help", "--version"):
        result = shell(f"$R {words} > /dev/full")
        assert (result.returncode, result.stderr) == (1, f"{full}nothing was changed\n")


def test_a_pipe_that_nobody_reads_is_quiet(tmp_path: Path) -> None:
    result = shell("$R --help | true; echo ${PIPESTATUS[0]}")
    assert (result.stdout, result.stderr) == ("1\n", "")
    data = write_npz(tmp_path / "d", range(20))
    done("learn", tmp_path / "m", data)
    result = shell(f"$R predict {tmp_path}/m {data} | head -1; echo $?")
    assert result.stdout.startswith("sample,label")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("learn", "missing argument 'MODEL'; see redunet learn --help"),
        ("learn m d.npz --fool 3", "no such option '--fool'; see redunet learn --help"),
        ("--fool", "no such option '--fool'; see redunet --help"),
        ("inspekt m", "no such command 'inspekt': did you mean 'inspect'? See redunet --help"),
        (
            "inspect m --device",
            "option '--device' requires an argument; see redunet",
        ),
        ("inspect m n", "got unexpected extra argument (n); see redunet inspect --help"),
        ("tune --per-class x", "invalid value for '--per-class': "),
    ],
)
def test_mistakes_in_the_words_are_one_line(words: str, message: str) -> None:
    assert refused(*words.split()).startswith(message)
