"""Every committed record is readable, and the real parser takes the command that made it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from redunet.cli.app import main
from redunet.cli.values import as_tuple, parsed, whole_numbers
from redunet_lab.cli.options import by_method
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.experiment import FEATURES, Experiment
from redunet_lab.methods import Method, check_methods
from redunet_lab.paper import SETTINGS, find
from redunet_lab.report.sections import chapter
from redunet_lab.report.text import to_markdown

RESULTS = Path(__file__).parents[3] / "results"
COMMANDS: Any = vars(typer.main.get_command(main))["commands"]
RECORDS = sorted(RESULTS.glob("**/*.json"))


def resolved(name: str, options: dict[str, Any]) -> Experiment:
    """The experiment that a command would run, with all its methods and what it searches."""
    if name == "reproduce":
        return find(options["name"]).experiment(**parsed(options["settings"]))
    given = {"recipe": options["recipe"], "config": options["config"]}
    if name in ("compare", "ablate"):
        changes = by_method(options["settings"])
        given |= {"usual": SETTINGS, "changes": changes.pop("redunet", {})}
        experiment = Experiment.of(options["data"], **given)
        methods = (options["methods"] or "redunet").split(",")
        check_methods([*methods, *changes])
        for key in {*methods, *changes}:
            Method.of(key, experiment, changes.get(key)).run_settings((), 0)
        return experiment
    experiment = Experiment.of(options["data"], changes=parsed(options["settings"]), **given)
    if name == "tune-data":
        searched = {key: as_tuple(value) for key, value in parsed(options["search"]).items()}
        searched = experiment.plan.renamed(searched)
        own: Any = None if options["method"] == "redunet" else CLOSED_FORMS[options["method"]]()
        for key, values in searched.items():
            if own and key not in FEATURES:
                assert own.named_today({key: values}).keys() <= own.own_settings().keys()
                continue
            for value in values:
                experiment.changed({key: value})
    return experiment


def test_there_are_records_of_every_kind() -> None:
    assert len(RECORDS) > 150


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_committed_record_is_readable_and_its_command_still_runs(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["what"] in to_markdown(chapter(record), ()).replace("\\", "")
    for line in (record["command"] or "").splitlines():
        program, name, *words = shlex.split(line)
        assert program == "redunet"
        name = "tune-data" if name == "tune" else name
        context = COMMANDS[name].make_context(name, words)  # an option that is unknown is an error
        if name == "demo":
            continue
        experiment = resolved(name, context.params)
        assert experiment.data == record.get("data", experiment.data)
        whole_numbers("seeds", context.params.get("seeds") or "0", least=0)
