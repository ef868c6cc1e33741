"""The command `redunet report`: pages of models and records, and one line for what is neither."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from redunet import ReduNetClassifier
from redunet.cli.app import main
from redunet.core.eigenvectors import top_eigenvectors
from redunet.core.network import ReduNet
from redunet.errors import ReduNetError
from redunet.estimators import LinearDiscriminant
from redunet.estimators import load as from_file
from redunet.features import Flatten
from redunet.report import page
from redunet.report.blocks import Chapter
from redunet.report.model import model_sections
from redunet.report.model_view import ModelView
from redunet.report.samples import read_samples
from redunet_lab.datasets import load
from redunet_lab.report.sections import chapter
from tests.conftest import classes_on_subspaces
from tests.made_records import KNOWN, Page, figures_of, plots_of

RESULTS = Path(__file__).parents[2] / "results"
pytestmark = pytest.mark.usefixtures("one_thread")


def plots(path: Path) -> list[list[str]]:
    return plots_of(path.read_text(encoding="utf-8"))


def drawn(path: Path, samples: Path | str | None = None, **options: Any) -> dict[str, list[Any]]:
    """What the views of each figure of a model's page show."""
    model = from_file(path)
    read = read_samples(str(samples), model, options.pop("rows", ())) if samples else None
    sections = model_sections(ModelView(model, read, **options))
    figures = figures_of(Chapter("", sections))
    return {figure.name: [view.drawing for view in figure.views] for figure in figures}


def titles(path: Path) -> list[str]:
    return re.findall(r"<h[23]>(.*?)</h[23]>", path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the even rows of the digits."""
    path = tmp_path_factory.mktemp("models") / "digits.safetensors"
    X, y = load_digits(return_X_y=True)
    ReduNetClassifier(n_layers=6).fit(X[::2], y[::2]).save(path)
    return path


def test_a_page_of_a_model(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    said = CliRunner().invoke(main, ["report", str(digits), "--samples", "digits", "-o", str(out)])
    assert said.exit_code == 0, said.output
    assert f"Wrote {out}, 0." in said.output
    assert out.stat().st_size < 1_500_000
    assert {tag for tag, _ in Page(out.read_text()).tags} <= set(KNOWN.split())
    assert titles(out) == [
        "Summary",
        "Confusion matrix",
        "Memberships by layer",
        "Angles between the classes",
        "Spectra of the classes",
        "Leading directions of the classes",
        "The objective by layer",
        "Classes",
        "Settings",
    ]
    model = ReduNetClassifier.load(digits)
    found = drawn(digits, "digits")
    assert list(map(len, plots(out))) == list(map(len, found.values()))
    rates = [layer.delta_R for layer in model.network_.rates()]
    assert found["rate"][0].curves[0].values == rates
    assert [len(curve.values) for curve in found["spectra"][0].curves] == [60] * 10
    angles = found["angles"][0]
    assert angles.mask_diagonal  # colours are spent on the other pairs
    values = np.array(angles.values)
    assert (np.diag(values) == 0).all()
    others = values[~np.eye(10, dtype=bool)]
    assert (others.min(), others.max()) == angles.bounds
    assert len(found["directions"]) == 2
    assert np.shape(found["directions"][0].tiles) == (6, 10, 8, 8)
    data = load("digits")
    X = data.x_test.reshape(len(data.x_test), -1)
    right = int((model.predict(X) == data.y_test).sum())
    assert f"{right:,} of {len(X):,} samples are labelled correctly" in out.read_text()
    share = f"{right:,} of {len(X):,} samples of digits correctly ({right / len(X):.1%})"
    assert f"It labels {share}." in out.read_text()
    first = [int(np.argmax(data.y_test == label)) for label in range(10)]
    wrong = [row for row in first if model.predict(X[[row]])[0] != data.y_test[row]]
    assert wrong  # the page opens on a mistake
    expected = model.memberships(X[[*wrong, *(row for row in first if row not in wrong)]])
    for index, view in enumerate(found["memberships"]):
        assert np.array(view.values) == pytest.approx(expected[:, index].T, abs=1e-4)


def test_samples_of_a_file(digits: Path, tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    out = tmp_path / "page.html"
    np.savez(tmp_path / "mine.npz", X=X[1:40:2].reshape(-1, 8, 8), y=y[1:40:2])
    page([digits], out, samples=str(tmp_path / "mine.npz"), rows=[3, 17])
    assert len(plots(out)[1]) == 2
    assert ">sample 3: labelled 7, true class 7</label>" in out.read_text()
    np.save(tmp_path / "mine.npy", X[:3])
    page([digits], out, samples=str(tmp_path / "mine.npy"))
    assert "Confusion matrix" not in titles(out)
    assert ">sample 2: labelled 2</label>" in out.read_text()


def test_models_without_pictures_layers_or_neighbours(tmp_path: Path) -> None:
    X, y = classes_on_subspaces(k=3, d=12, per_class=20, rank=3)
    path, out = tmp_path / "model", tmp_path / "page.html"
    words = np.array(["<b>cat</b>", "dog & co", "$eel$"])[y]
    ReduNetClassifier(n_layers=0).fit(X, words).save(path)
    page([path], out)
    assert titles(out) == [
        "Summary",
        "Angles between the classes",
        "Spectra of the classes",
        "Classes",
        "Settings",
    ]
    assert plots(out)[0][0].startswith("$eel$ &lt;b&gt;cat&lt;/b&gt; dog &amp; co class")
    ReduNetClassifier(n_layers=2).fit(X[y == 0], y[y == 0]).save(path)
    page([path], out)
    assert titles(out)[1:3] == ["Spectra of the classes", "The objective by layer"]


def test_one_layer_is_told_in_words(tmp_path: Path) -> None:
    """A heat map of one column and a line of one point would say nothing."""
    X, y = classes_on_subspaces(k=3, d=12, per_class=20, rank=3)
    path, out = tmp_path / "model", tmp_path / "page.html"
    model = ReduNetClassifier(n_layers=1).fit(X, y)
    model.save(path)
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    page([path], out, samples=str(tmp_path / "mine.npz"), rows=[3])
    highest = model.memberships(X[3:4])[0, 0].max()
    text = out.read_text()
    assert "one layer, labels by" in text
    assert f"{y[3]} {highest:.3f}, " in text
    assert "Before the only layer the rate reduction ΔR is " in text
    assert len(plots(out)) == 3  # confusion matrix, angles, spectra


def test_directions_in_colour(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 5, 6, 3)).astype(np.uint8)
    model = ReduNetClassifier(n_layers=2, features=Flatten((5, 6, 3)), n_components=4)
    model.fit(images, np.arange(20) % 2).save(tmp_path / "model")
    page([tmp_path / "model"], tmp_path / "page.html")
    tiles = np.array(drawn(tmp_path / "model")["directions"][0].tiles)
    assert tiles.shape == (4, 2, 5, 6, 3)
    assert np.abs(tiles).max() == 1
    text = (tmp_path / "page.html").read_text()
    png = re.findall(r'plot photos".*?base64,\s*(.*?)"', text, re.DOTALL)[0]
    with Image.open(io.BytesIO(base64.b64decode(png))) as sheet:
        pixels = np.array(sheet)
    assert pixels.shape == (4 * 15 + 3 * 2, 2 * 18 + 2, 4)  # one raster of all
    assert pixels[0, 0, 3] == 255
    assert pixels[0, 18, 3] == 0  # the page's colour between pictures


def test_behind_a_whitening_there_are_no_pixels(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ReduNetClassifier.load(digits)
    plain = {section.title: section for section in model_sections(ModelView(model))}
    monkeypatch.setattr("redunet.report.model.is_whitened", lambda model: True)
    whitened = {section.title: section for section in model_sections(ModelView(model))}
    title = "Leading directions of the classes"
    figures: list[Any] = [each[title].blocks[0] for each in (plain, whitened)]
    (before, after), (learnt,) = (figure.views for figure in figures)
    assert learnt.name == "before the whitening"
    assert learnt.drawing.tiles == before.drawing.tiles
    assert after.drawing.tiles != before.drawing.tiles


def many_classes(folder: Path, k: int, d: int, n_layers: int) -> ReduNetClassifier:
    """A model of many classes, the first two of them nearly alike, and a file of samples."""
    X, y = classes_on_subspaces(k=k, d=d, per_class=12, rank=3)
    X[y == 1] = X[y == 0] + 0.01 * X[y == 1]
    X = np.abs(X) if n_layers == 30 else X
    model = ReduNetClassifier(n_layers=n_layers, n_components=5).fit(X, y)
    model.save(folder / "model")
    np.savez(folder / "mine.npz", x=X, y=y)
    return model


def test_many_classes_make_no_large_page(tmp_path: Path) -> None:
    many_classes(tmp_path, k=130, d=25, n_layers=30)
    out = tmp_path / "page.html"
    size = page([tmp_path / "model"], out, samples=str(tmp_path / "mine.npz"))
    assert size == out.stat().st_size < 1_500_000
    text = out.read_text()
    for said in (
        "12 of 130 classes: those of the most similar pairs (--classes: others).",
        "40 of 130 classes: those of the most similar pairs (--classes: others).",
        "the model (40 classes with most mistakes of 130)",
        "40 of 130 classes: those with most mistakes.",
        "The 20 classes of highest membership, of 130.",
    ):
        assert said in text
    found = drawn(tmp_path / "model", tmp_path / "mine.npz")
    assert list(map(len, plots(out))) == list(map(len, found.values()))
    assert np.shape(found["angles"][0].values) == (40, 40)
    assert np.shape(found["confusion"][0].values) == (40, 40)
    assert len(found["spectra"][0].curves) == 12
    assert len({curve.color for curve in found["spectra"][0].curves}) == 12
    assert len(found["directions"]) == 2 * 4  # ten classes at a time, before the layers and after
    assert {np.shape(view.values) for view in found["memberships"]} == {(20, 30)}
    for view in found["memberships"]:  # what is left out is small
        assert np.sum(view.values, axis=0).min() > 0.5


def test_many_classes_cost_no_more_than_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_classes(tmp_path, k=150, d=64, n_layers=20)
    solved: list[tuple[int, ...]] = []
    passes: list[str] = []

    def counted(A: Any, n: int) -> Any:
        solved.append(tuple(A.shape))
        return top_eigenvectors(A, n)

    monkeypatch.setattr("redunet.core.second_moments.top_eigenvectors", counted)
    for name in ("rates", "last_moments"):
        real = getattr(ReduNet, name)

        def noted(self: ReduNet, name: str = name, real: Any = real) -> Any:
            passes.append(name)
            return real(self)

        monkeypatch.setattr(ReduNet, name, noted)
    out = tmp_path / "page.html"
    # Layers that do not fit into memory are not passed through unless asked for.
    size = page([tmp_path / "model"], out, memory="1MB")
    assert solved == [(64, 64)] * 40
    assert passes == []
    assert size < 1_000_000
    assert "What the layers do is left out: a pass over 20 layers of 150 classes" in out.read_text()
    angles, spectra = plots(out)
    assert [len(views) for views in (angles, spectra)] == [1, 1]
    classes = re.findall(r'<th scope="row">(.*?)</th>', out.read_text())
    assert classes[:2] == ["0", "1"]  # the pair that is nearly alike
    assert "The most similar classes shown are 0 and 1," in out.read_text()
    solved.clear()
    page([tmp_path / "model"], out, classes=["7", "140"], layers=True)
    assert solved == [(64, 64)] * 4
    assert passes == ["last_moments", "rates"]
    assert plots(out)[0][0].startswith("7 140 class")
    assert "2 classes that were asked for, of 150." in out.read_text()


def test_unknown_classes_are_one_line(digits: Path, tmp_path: Path) -> None:
    words = ["report", str(digits), "--classes", "3,eleven", "-o", str(tmp_path / "page.html")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "unknown class 'eleven': expected some of the model's 10 classes" in done.output
    assert not (tmp_path / "page.html").exists()


def test_every_committed_record_has_a_page() -> None:
    for path in sorted(RESULTS.rglob("*.json")):
        record = json.loads(path.read_text())
        made = chapter(record)
        assert made.title == record["what"], path
        assert len(made.sections) > 1, path


def test_a_page_of_several_records(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    records = [RESULTS / f"{name}.json" for name in ("mnist", "cifar10", "digits-demo")]
    assert page(records, out) < 1_500_000
    found = Page(out.read_text())
    assert len(found.with_tag("article")) == 3
    links = [link["href"] for link in found.with_tag("a")]
    assert [link for link in links if "-" not in str(link)] == ["#0", "#1", "#2"]
    assert "0.197 SI (theirs)" in " ".join(plots(out)[0][0].split())
    wanted = [figures_of(chapter(json.loads(path.read_text()))) for path in records]
    assert len(plots(out)) == sum(map(len, wanted))


def test_what_is_neither_is_one_line(digits: Path, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        done = CliRunner().invoke(main, ["report", *words, "-o", str(tmp_path / "page.html")])
        assert done.exit_code == 2
        assert not (tmp_path / "page.html").exists()
        assert done.output.count("\n") == 1
        return done.output

    other = tmp_path / "other"
    other.write_text("a note")
    assert said(str(other)) == (
        f"redunet: expected a model or a record, but {other} is not a redunet model, or is "
        f"damaged: take another copy of the file\n"
    )
    other.write_text('{"half": ')
    assert f"expected a record in {other}, but it is not JSON" in said(str(other))
    other.write_text('{"what": "\\ud800"}')
    assert f"expected a record in {other}, but it is not JSON: 'utf-8' codec can't" in (
        said(str(other))
    )
    other.write_text('{"what": "else", "variants": []}')
    assert f"cannot show {other}: expected a record of kind 'experiment' or 'tune'" in (
        said(str(other))
    )
    other.write_text('{"kind": "experiment", "version": 2, "what": "a", "methods": [{"name": 3}]}')
    assert f"expected {other} to be a whole record, but it is not: KeyError" in said(str(other))
    assert f"cannot read {tmp_path / 'none'}: No such file" in said(str(tmp_path / "none"))
    assert f"cannot read {tmp_path}: expected a regular file, got a folder" in said(str(tmp_path))
    mnist = str(RESULTS / "mnist.json")
    assert "expected a model to show --samples of" in said(mnist, "--samples", "digits")
    assert "expected --rows of samples, got none" in said(str(digits), "--rows", "1")
    assert "and no data set among cifar10, clinc150, digits" in said(
        str(digits), "--samples", "digit"
    )
    assert "rows from 0 to 598 of digits, got 599" in (
        said(str(digits), "--samples", "digits", "--rows", "599")
    )
    np.savez(tmp_path / "odd.npz", z=[1])
    assert "got z (1,): save samples as X" in (
        said(str(digits), "--samples", str(tmp_path / "odd.npz"))
    )
    np.savez(tmp_path / "odd.npz", x=np.zeros((3, 63)))
    assert "X has 63 features" in said(str(digits), "--samples", str(tmp_path / "odd.npz"))
    np.savez(tmp_path / "odd.npz", x=np.zeros((3, 64)), y=["a", "b", "c"])
    assert "expected whole numbers as labels" in (
        said(str(digits), "--samples", str(tmp_path / "odd.npz"))
    )
    np.save(tmp_path / "odd.npy", np.array([object()]), allow_pickle=True)
    assert "Python objects in dtype" in said(str(digits), "--samples", str(tmp_path / "odd.npy"))
    other.write_bytes(digits.read_bytes()[:-7])
    assert "is not a redunet model, or is damaged" in said(str(other))


@given(st.binary(max_size=200), st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_file_of_samples_is_more_than_an_error(
    digits: Path, tmp_path: Path, data: bytes, npy: bool
) -> None:
    path = tmp_path / "samples.npy"
    path.write_bytes((b"\x93NUMPY\x01\x00" if npy else b"PK\x03\x04") + data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ReduNetError):
            page([digits], tmp_path / "page.html", samples=str(path))


def _shuffled(value: Any, rng: np.random.Generator) -> Any:
    """The value with some of its parts of another kind."""
    if rng.random() < 0.03:
        return rng.choice(np.array([None, "x", 3, [], {}], dtype=object))
    if isinstance(value, dict):
        return {key: _shuffled(one, rng) for key, one in value.items()}
    return [_shuffled(one, rng) for one in value] if isinstance(value, list) else value


@given(st.integers(0, 2**31), st.sampled_from(["mnist", "digits-demo"]))
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_record_is_a_page_or_an_error(tmp_path: Path, seed: int, name: str) -> None:
    record = json.loads((RESULTS / f"{name}.json").read_text())
    for rates in [run.get("rates") or {} for m in record["methods"] for run in m["runs"]]:
        rates |= {key: values[:3] for key, values in rates.items()}
    path = tmp_path / "record.json"
    path.write_text(json.dumps(_shuffled(record, np.random.default_rng(seed))))
    with contextlib.suppress(ReduNetError):
        assert page([path], tmp_path / "page.html") > 5_000


def test_a_page_of_another_estimator(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    model = LinearDiscriminant(0.2).fit(X[::2], y[::2])
    model.save(tmp_path / "lda")
    out = tmp_path / "page.html"
    page([tmp_path / "lda"], out, samples="digits")
    assert titles(out) == [
        "Summary",
        "Confusion matrix",
        "Angles between the classes",
        "Spectra of the classes",
        "Leading directions of the classes",
        "Classes",
        "Settings",
    ]
    said = out.read_text(encoding="utf-8")
    assert "64 features: labels by linear discriminant." in said
    data = load("digits")
    right = int((model.predict(data.x_test.reshape(-1, 64)) == data.y_test).sum())
    assert f"It labels {right:,} of {len(data.y_test):,} samples of digits correctly" in said
    assert "shrinkage" in said


def test_a_page_of_a_model_needs_neither_baselines_nor_data_sets(
    digits: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((3, 64)), y=[0, 1, 2])
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from redunet.report import page\n"
        "parts = 'matplotlib', 'redunet_lab.baselines', 'redunet_lab.datasets', 'redunet_lab'\n"
        "loaded = lambda: [name for name in parts if name in sys.modules]\n"
        "first = loaded()\n"
        "page([Path(sys.argv[1])], Path(sys.argv[2]), samples=sys.argv[3])\n"
        "print(first, loaded(), 'matplotlib.pyplot' in sys.modules)"
    )
    paths = map(str, (digits, tmp_path / "page.html", tmp_path / "mine.npz"))
    words = [sys.executable, "-c", program, *paths]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[] ['matplotlib'] False\n", "")
