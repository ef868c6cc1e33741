"""The examples of docs/adapters.md run, each where its package is installed.

Those of MLflow and Weights & Biases are run by test_logging.py, which looks at what they leave.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from redunet.estimators import NearestMean
from tests.own_data import done
from tests.records import ROOT

PAGE = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PACKAGES = ("river", "avalanche", "mlflow", "wandb", "sklearn")
EXAMPLES = dict(zip(PACKAGES, BLOCKS, strict=True))


@pytest.mark.filterwarnings("ignore")  # of the packages themselves
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("package", ["river", "avalanche", "sklearn"])
def test_an_example_runs(
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install 'redunet[{package}]'")
    if package == "avalanche":
        from tests.adapters.torchvision_operators import declare_where_missing

        declare_where_missing()
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    assert package in EXAMPLES[package]
    exec(compile(EXAMPLES[package], f"docs/adapters.md, {package}", "exec"), found)
    if package == "river":
        said = re.findall(r"Accuracy: ([\d.]+)%", capsys.readouterr().out)
        assert float(said[0]) > 75
        assert Path("segments.safetensors").exists()
    if package == "avalanche":
        assert float(capsys.readouterr().out.split()[-1]) > 0.9
    if package == "sklearn":
        assert None in found["labels"].tolist()  # type: ignore[attr-defined]


def test_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    NearestMean().fit([[1.0, 0.0], [0.0, 1.0]], ["wren", "rook"]).save("birds.safetensors")
    Path("birds.csv").write_text("a,b,label\n1,0,wren\n")
    said = done("evaluate", "birds.safetensors", "birds.csv", "--json").stdout
    Path("evaluation.json").write_text(said)
    [line] = re.findall(r"```sh\n(.*?)\n```", PAGE, re.DOTALL)
    done(*shlex.split(line)[1:])
    assert "redunet evaluate | 1.0000 | 1 |" in Path("card.md").read_text()
