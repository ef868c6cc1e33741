"""What an installed package must be able to do, with nothing but the standard library around it.

Prints the version of the command, then the sha256 of a model file, which is the same everywhere.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from redunet import ReduNetClassifier, __version__
from redunet.estimators import load


def main() -> None:
    """Learn, withdraw, save, load and ask, in Python and by the command."""
    draw = np.random.RandomState(0)
    X, y = draw.randint(0, 256, (90, 20)).astype(float), np.repeat(["a", "b", "c"], 30)
    X[y == "a", :8] = 0
    X[y == "b", 8:] = 0
    model = ReduNetClassifier(n_layers=3, n_components=4).partial_fit(X[:40], y[:40])
    model.partial_fit(X[40:], y[40:])
    assert model.score(X, y) > 0.9
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.safetensors"
        model.forget(["c"]).save(path)
        assert load(path).classes_.tolist() == ["a", "b"]
        command = [sys.executable, "-I", "-m", "redunet"]
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert said.stdout == f"redunet {__version__}\n", said.stdout
        rows = ["label," + ",".join(f"f{i}" for i in range(20))]
        rows += [f"{label}," + ",".join(map(str, row)) for label, row in zip(y, X, strict=True)]
        (Path(name) / "data.csv").write_text("\n".join(rows))
        for words in (
            ["learn", "own.safetensors", "data.csv", "--set", "n_layers=2"],
            ["evaluate", "own.safetensors", "data.csv", "--json"],
            ["inspect", "own.safetensors", "--json"],
            ["report", "own.safetensors", "-o", "page.html"],
        ):
            subprocess.run([*command, *words], cwd=name, capture_output=True, check=True)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    print(said.stdout.strip())
    print(digest)


if __name__ == "__main__":
    main()
