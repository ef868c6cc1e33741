"""Records in MLflow and Weights & Biases, against both packages, with local files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from redunet import DataError
from redunet_lab.tracking import log_to_mlflow, runs_of
from tests.adapters.test_docs import EXAMPLES
from tests.records import ROOT, record

COMPARED = ROOT / "results" / "compare-digits.json"


def test_every_run_of_a_record_is_there() -> None:
    compared = record("compare-digits")
    runs = list(runs_of(COMPARED))
    assert len(runs) == sum(len(method["runs"]) for method in compared["methods"])
    first, given = runs[0], compared["methods"][0]
    assert first.name == given["name"]
    assert first.settings["method"] == given["method"]
    accuracies = [task["accuracy"] for task in given["runs"][0]["tasks"]]
    assert [task["accuracy"] for task in first.tasks] == accuracies
    assert first.tasks[1]["accuracy_task_1"] == given["runs"][0]["tasks"][1]["accuracy_by_task"][0]
    assert first.summary["last"] == accuracies[-1]
    assert first.tags["data"] == "digits"
    seeds = [run.name for run in runs if run.settings["method"] == "er"]
    assert seeds[0] == "ER, seed 0"


def test_another_kind_of_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the record of an experiment, with runs"):
        list(runs_of({"kind": "tuning"}))
    (tmp_path / "record.json").write_text("no JSON")
    with pytest.raises(DataError, match=re.escape("expected a record in JSON in ")):
        list(runs_of(tmp_path / "record.json"))


@pytest.mark.filterwarnings("ignore")  # of MLflow itself
def test_mlflow_holds_settings_metrics_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'redunet[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    demo = record("digits-demo")
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "results" / "digits-demo.json", "record.json")
    model = tmp_path / "model.safetensors"
    model.write_bytes(b"a model")
    before = mlflow.get_tracking_uri()
    try:
        exec(compile(EXAMPLES["mlflow"], "docs/adapters.md", "exec"), {})
        assert len(mlflow.search_runs(experiment_names=["digits"], output_format="list")) == 1
        [run_id] = log_to_mlflow(demo, files=[model])
        client = mlflow.MlflowClient()
        run = client.get_run(run_id)
        assert run.info.status == "FINISHED"
        assert run.info.run_name == "ReduNet"
        assert run.data.params["n_layers"] == "50"
        assert run.data.tags["data"] == "digits"
        [task, *_] = demo["methods"][0]["runs"]
        wanted = [one["accuracy"] for one in task["tasks"]]
        history = client.get_metric_history(run_id, "accuracy")
        assert [(one.step, one.value) for one in history] == [*enumerate(wanted, 1)]
        assert run.data.metrics["summary_forgetting"] == task["summary"]["forgetting"]
        stored = {one.path for one in client.list_artifacts(run_id)}
        assert stored == {"record.json", "model.safetensors"}
        kept = Path(mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="record.json"))
        assert json.loads(kept.read_text()) == demo
    finally:
        mlflow.set_tracking_uri(before)


def history_in(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Configuration and history in the file of an offline run."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    [file] = folder.glob("**/*.wandb")
    store = DataStore()
    store.open_for_scan(str(file))
    config: dict[str, Any] = {}
    history = []
    while (data := store.scan_data()) is not None:
        read = wandb_internal_pb2.Record()
        read.ParseFromString(data)
        if read.WhichOneof("record_type") == "run":
            config |= {one.key: json.loads(one.value_json) for one in read.run.config.update}
        if read.WhichOneof("record_type") == "history":
            items = {".".join(i.nested_key) or i.key: i.value_json for i in read.history.item}
            history.append({key: json.loads(value) for key, value in items.items()})
    return config, history


@pytest.mark.filterwarnings("ignore")  # of Weights & Biases itself
def test_wandb_holds_settings_and_metrics_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(
        "wandb", reason="Weights & Biases is not installed: pip install 'redunet[wandb]'"
    )
    import wandb

    demo = record("digits-demo")
    for name in ("SILENT", "X_DISABLE_STATS", "X_DISABLE_META", "X_DISABLE_MACHINE_INFO"):
        monkeypatch.setenv(f"WANDB_{name}", "true")
    monkeypatch.setenv("WANDB_CONSOLE", "off")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "results" / "digits-demo.json", "record.json")
    exec(compile(EXAMPLES["wandb"], "docs/adapters.md", "exec"), {})
    wandb.teardown()
    [folder] = tmp_path.glob("wandb/offline-run-*")
    config, history = history_in(folder)
    assert config["n_layers"] == 50
    assert config["data"] == "digits"
    wanted = [one["accuracy"] for one in demo["methods"][0]["runs"][0]["tasks"]]
    assert [(row["_step"], row["accuracy"]) for row in history] == [*enumerate(wanted, 1)]
