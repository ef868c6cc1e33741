"""Commands import what they use: scikit-learn, PyArrow and Matplotlib where they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from redunet import ReduNetClassifier

X, Y = np.random.RandomState(0).rand(30, 6), np.repeat([0, 1, 2], 10)
SLOW = {
    "sklearn",
    "scipy",
    "matplotlib",
    "pyarrow",
    "PIL",
    "rich",
    "pandas",
    "dask",
    "onnx",
    "fastapi",
}
PROGRAM = """
import sys
from redunet.__main__ import main
try:
    main()
except SystemExit as end:  # sys.argv holds the words already
    assert not end.code, end.code
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def imported(*words: str | Path) -> set[str]:
    """The packages that a command imports."""
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    ReduNetClassifier(n_layers=1, device="cpu").fit(X, Y).save(path)
    path.with_name("n.safetensors").write_bytes(path.read_bytes())
    np.savez(path.with_name("d.npz"), X=X[:3], y=Y[:3])
    return path


@pytest.mark.parametrize(
    "words",
    [
        "verify m.safetensors",
        "inspect m.safetensors",
        "forget m.safetensors 1",
        "unlearn m.safetensors d.npz",
        "merge m.safetensors n.safetensors --out o.safetensors",
    ],
)
def test_commands_on_model_files_import_pytorch_alone(words: str, model: Path) -> None:
    before = model.read_bytes()
    try:
        found = imported(*(model.parent / w if w[1:2] == "." else w for w in words.split()))
    finally:
        model.write_bytes(before)
    assert "torch" in found
    assert found & SLOW == set()


@pytest.mark.parametrize("words", ["--help", "--version", "learn --help"])
def test_help_imports_nothing(words: str) -> None:
    assert not imported(*words.split()) & {*SLOW, "torch", "numpy"}


def test_the_package_alone_imports_nothing() -> None:
    code = "import redunet, sys; print(*(name.partition('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {*SLOW, "torch", "numpy"} & set(done.stdout.split())
