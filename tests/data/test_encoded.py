"""Texts and images given to commands: encoded on the way, and never with another encoder."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from redunet import ModelFileError, ReduNetClassifier
from redunet.encoders import EncoderId, open_encoder
from redunet.estimators import load, storage
from tests.own_data import done, redunet, refused
from tests.tiny_encoders import WORDS, image_folder, text_folder

pytestmark = pytest.mark.usefixtures("one_thread")

_draw = np.random.RandomState(0)
LABELS = np.array(["weather", "music"] * 20)
TEXTS = [
    " ".join(_draw.choice(WORDS.split()[:6] if label == "weather" else WORDS.split()[6:12], 5))
    for label in LABELS
]
TEXTS[0] = 'rain, "wind"\nand a storm; snow'
ROWS = range(40)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_folder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return text_folder(tmp_path_factory.mktemp("encoders") / "other", seed=1)


@pytest.fixture(scope="module")
def of_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("encoders") / "vit")


def write(path: Path, which: Any = ROWS, text: str = "text", **more: Any) -> Path:
    """A table of texts, written as the ending says."""
    columns = {"id": [f"#{row}" for row in which], text: [TEXTS[row] for row in which]}
    columns["label"] = [str(LABELS[row]) for row in which]
    return write_columns(path, {**columns, **more})


def write_columns(path: Path, columns: dict[str, Any]) -> Path:
    """A table, written as the ending says."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pa.table(columns), path, row_group_size=7)
    elif path.suffix == ".jsonl":
        rows = zip(*columns.values(), strict=True)
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        path.write_text("\n".join(lines) + "\n\n")
    else:
        with path.open("w", newline="") as file:
            table = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writerows([columns, *zip(*columns.values(), strict=True)])
    return path


@pytest.fixture
def model(tmp_path: Path, tiny: Path) -> Path:
    path = tmp_path / "model"
    done("learn", path, write(tmp_path / "learnt.csv"), "--encoder", tiny, "--recipe", "vectors")
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_texts_of_any_table_are_learnt_through_their_vectors(
    tmp_path: Path, tiny: Path, model: Path, ending: str
) -> None:
    data = write(tmp_path / f"t.{ending}")
    done("learn", tmp_path / "m", data, "--encoder", tiny, "--recipe", "vectors")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    done("encode", data, "-o", tmp_path / "v.parquet", "--encoder", tiny)
    done("learn", tmp_path / "of-vectors", tmp_path / "v.parquet", "--recipe", "vectors")
    assert (tmp_path / "of-vectors").read_bytes() == model.read_bytes()
    encoder = open_encoder(tiny)
    read = load(model)
    assert read.encoder_ == encoder.id
    vectors = encoder(TEXTS)
    expected = ReduNetClassifier(**{k: v for k, v in read.get_params().items() if k != "device"})
    assert expected.fit(vectors, LABELS).moments_ == read.moments_
    rows = done("predict", model, data, "--encoder", tiny).stdout.splitlines()[1:]
    assert [row.split(",")[1] for row in rows] == read.predict(vectors).tolist()
    by_vectors = done("predict", model, tmp_path / "v.parquet").stdout.splitlines()[1:]
    assert by_vectors == rows
    said = done("evaluate", model, data, "--encoder", tiny, "--json").stdout
    assert json.loads(said)["accuracy"] == np.mean(read.predict(vectors) == LABELS)


def test_vectors_say_whose_they_are(tmp_path: Path, tiny: Path) -> None:
    data = write(tmp_path / "t.csv", number=[str(row % 3) for row in ROWS])
    out = tmp_path / "v.parquet"
    said = done("encode", data, "-o", out, "--encoder", tiny, "--label", "number", "--json").stdout
    found = json.loads(said)
    encoder = open_encoder(tiny)
    assert (found["samples"], found["features"]) == (40, 16)
    assert found["encoder"] == encoder.id.to_dict()
    table = pyarrow.parquet.read_table(out)
    assert table.schema.names == ["sample", "label", *(f"v{index}" for index in range(16))]
    assert json.loads(table.schema.metadata[b"redunet.encoder"]) == encoder.id.to_dict()
    assert table["label"].to_pylist() == [row % 3 for row in ROWS]
    assert table["sample"].to_pylist() == [str(row + 1) for row in ROWS]
    values = np.column_stack([table[f"v{index}"].to_numpy() for index in range(16)])
    assert np.array_equal(values, encoder(TEXTS))
    without = write(tmp_path / "u.jsonl")
    unlabelled = [json.loads(line) for line in without.read_text().splitlines() if line]
    without.write_text("\n".join(json.dumps({"text": line["text"]}) for line in unlabelled))
    done("encode", without, "-o", out, "--encoder", tiny)
    assert pyarrow.parquet.read_schema(out).names == ["sample", *(f"v{i}" for i in range(16))]


def test_texts_are_added_and_withdrawn_to_the_byte(tmp_path: Path, tiny: Path, model: Path) -> None:
    before = model.read_bytes()
    more = write(tmp_path / "more.jsonl", range(5, 25), text="question")
    done("learn", model, more, "--encoder", tiny)
    assert model.read_bytes() != before
    done("unlearn", model, write(tmp_path / "gone.parquet", range(5, 25)), "--encoder", tiny)
    assert model.read_bytes() == before
    done("forget", model, "music")
    only = write(tmp_path / "only.csv", range(0, 40, 2))
    done("learn", tmp_path / "never", only, "--encoder", tiny, "--recipe", "vectors")
    assert model.read_bytes() == (tmp_path / "never").read_bytes()
    assert "Encoder: tiny, weights of sha256" in done("inspect", model).stdout


def test_vectors_of_another_encoder_are_refused(
    tmp_path: Path, tiny: Path, other: Path, model: Path
) -> None:
    data, before = write(tmp_path / "t.csv"), model.read_bytes()
    tables = {}
    for name, folder in (("tiny", tiny), ("other", other)):
        tables[name] = tmp_path / f"{name}.parquet"
        done("encode", data, "-o", tables[name], "--encoder", folder)
    for command in ("learn", "unlearn", "evaluate", "predict"):
        said = refused(command, model, tables["other"])
        assert said.startswith("expected vectors of the encoder tiny (sha256 ")
        assert "got those of other (sha256 " in said
        assert "name the same encoder with --encoder, or learn it in a model of its own" in said
        said = refused(command, model, data, "--encoder", other)
        assert said.startswith("expected the encoder tiny (sha256 ")
        said = refused(command, model, data)
        assert ("the same encoder with --encoder" in said) or "or name an encoder" in said
    np.savez(tmp_path / "plain.npz", X=open_encoder(tiny)(TEXTS), y=LABELS)
    said = refused("learn", model, tmp_path / "plain.npz")
    assert "got some that name none" in said
    done("predict", model, tmp_path / "plain.npz")
    assert model.read_bytes() == before
    done("learn", tmp_path / "plain", tmp_path / "plain.npz")
    said = refused("learn", tmp_path / "plain", tables["tiny"])
    assert "expected vectors that name no encoder, got those of tiny (sha256 " in said
    assert "leave it out, or make a new model" in refused(
        "predict", tmp_path / "plain", data, "--encoder", tiny
    )
    done("learn", tmp_path / "theirs", tables["other"], "--recipe", "vectors")
    said = refused("merge", model, tmp_path / "theirs", "-o", tmp_path / "both")
    assert "they differ in the encoder of their vectors" in said
    said = refused("learn", tmp_path / "new", tables["tiny"], tables["other"])
    assert "got those of other" in said
    said = refused("encode", tables["tiny"], "-o", tmp_path / "a.parquet", "--encoder", other)
    assert "got vectors of tiny (sha256 " in said


def test_mistakes_are_one_line(tmp_path: Path, tiny: Path, of_images: Path) -> None:
    data = write(tmp_path / "t.csv")
    new = ("learn", tmp_path / "m")
    said = refused(*new, data, "--label", "id")
    assert "or name an encoder (--encoder minilm) if it holds texts" in said
    said = refused(*new, write(tmp_path / "t.parquet"), "--label", "id")
    assert "or name an encoder (--encoder minilm) if it holds texts" in said
    said = refused(*new, write(tmp_path / "u.csv", text="words"), "--encoder", tiny)
    assert "expected one of text, texts, sentence, question, query, utterance to hold the" in said
    assert "but there are only id, words: name it with --text" in said
    done(*new, tmp_path / "u.csv", "--encoder", tiny, "--text", "words")
    new = ("learn", tmp_path / "n")
    assert "name another with --text" in refused(*new, data, "--encoder", tiny, "--text", "no")
    said = refused(*new, write(tmp_path / "t.jsonl"))
    assert "name one, such as --encoder minilm" in said
    (tmp_path / "t.csv").write_text("text,label\nrain,a\n,b\n")
    said = refused(*new, data, "--encoder", tiny)
    assert "expected a text in each row of column 'text'" in said
    assert "got none in row 2: remove the row" in said
    for line, message in (
        ("[1]", "expected a JSON object on each line of"),
        ("{", "is not a file of JSON lines, or is damaged"),
        ('{"text": 3, "label": "a"}', "expected a text as 'text' in row 2 of"),
        ('{"text": "rain"}', "expected a text as 'label' in row 2 of"),
        ('{"text": "rain", "label": 3}', "expected a text as 'label' in row 2 of"),
    ):
        (tmp_path / "t.jsonl").write_text(f'{{"text": "rain", "label": "a"}}\n{line}\n')
        assert message in refused(*new, tmp_path / "t.jsonl", "--encoder", tiny)
    (tmp_path / "t.jsonl").write_text('{"text": "\\ud800", "label": "a"}\n')
    said = refused(*new, tmp_path / "t.jsonl", "--encoder", tiny)
    assert r"expected texts of Unicode letters, got '\ud800'" in said
    for label in ("1.5", "true", "null", "[]"):
        (tmp_path / "t.jsonl").write_text(f'{{"text": "rain", "label": {label}}}\n')
        said = refused(*new, tmp_path / "t.jsonl", "--encoder", tiny)
        assert "expected labels that are whole numbers or text" in said
    (tmp_path / "t.jsonl").write_text("\n")
    said = refused(*new, tmp_path / "t.jsonl", "--encoder", tiny)
    assert "expected at least one line in" in said
    pyarrow.parquet.write_table(pa.table({"text": [1, 2], "y": [0, 1]}), tmp_path / "t.parquet")
    said = refused(*new, tmp_path / "t.parquet", "--encoder", tiny)
    assert "expected texts in column 'text'" in said
    folder = tmp_path / "photos"
    (folder / "a").mkdir(parents=True)
    Image.new("RGB", (30, 30)).save(folder / "a" / "1.png")
    assert "expected texts for the encoder tiny, got images" in refused(
        *new, folder, "--encoder", tiny
    )
    assert "got both: an encoder scales images" in refused(
        *new, folder, "--encoder", of_images, "--resize", 8
    )
    out = ("-o", tmp_path / "v.csv", "--encoder", tiny)
    assert "expected a name that ends in .parquet" in refused(
        "encode", write(tmp_path / "t.csv"), *out
    )
    assert not (tmp_path / "n").exists()


def picture(path: Path, seed: int, size: tuple[int, int], mode: str, **options: Any) -> None:
    pixels = np.random.RandomState(seed).randint(0, 256, (6, 5, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).convert(mode)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def test_images_of_any_size_and_mode(tmp_path: Path, of_images: Path) -> None:
    folder = tmp_path / "photos"
    kinds = [("RGB", "png"), ("L", "png"), ("RGBA", "png"), ("P", "gif"), ("CMYK", "jpg")]
    for seed, (mode, ending) in enumerate(kinds * 2):
        size = (17 + 9 * seed, 61 - 5 * seed)
        picture(folder / "ab"[seed % 2] / f"{seed}.{ending}", seed, size, mode)
    done("learn", tmp_path / "m", folder, "--encoder", of_images)
    assert load(tmp_path / "m").moments_.counts == (5, 5)
    out = tmp_path / "v.parquet"
    done("encode", folder, "-o", out, "--encoder", of_images)
    done("learn", tmp_path / "n", out)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    table = pyarrow.parquet.read_table(out)
    assert table["sample"].to_pylist()[0] == str(folder / "a" / "0.png")
    assert table["label"].to_pylist() == ["a"] * 5 + ["b"] * 5
    one = done("predict", tmp_path / "m", folder / "a" / "0.png", "--encoder", of_images).stdout
    every = done("predict", tmp_path / "m", out).stdout.splitlines()
    assert one.splitlines()[1] == every[1]
    (folder / "a" / "bad.png").write_bytes(b"no image")
    words = ("encode", folder, "-o", out, "--encoder", of_images)
    assert "1 of 11 images" in refused(*words)
    result = redunet(*words, "--skip-bad")
    assert result.exit_code == 0
    assert "left out 1 image that cannot be used" in result.stderr


def test_each_sample_is_encoded_once(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redunet.encoders import Encoder

    seen: list[str] = []
    call = Encoder.__call__

    def counted(self: Encoder, samples: Any) -> Any:
        seen.extend(samples)
        return call(self, samples)

    monkeypatch.setattr(Encoder, "__call__", counted)
    data = write(tmp_path / "t.csv")
    options = ("--features", "fourier", "--set", "centred=true", "--set", "width=20")
    done("learn", tmp_path / "m", data, "--encoder", tiny, *options)
    assert seen == TEXTS


def test_the_encoder_is_part_of_the_model_file(tmp_path: Path, model: Path) -> None:
    tensors, content = storage.load(model)
    assert content["encoder"]["name"] == "tiny"
    for forged in ({}, {"name": "tiny"}, {"name": "a", "sha256": "0"}, 3, None):
        data = storage.encode(tensors, {**content, "encoder": forged})
        (tmp_path / "forged").write_bytes(data)
        with pytest.raises(ModelFileError, match="is not a model of this version"):
            load(tmp_path / "forged")
    known = load(model)
    known.set_encoder(EncoderId("renamed", content["encoder"]["sha256"]))
    known.save(tmp_path / "renamed")
    assert load(tmp_path / "renamed").merge(load(model)).encoder_ == known.encoder_
    known.set_encoder(None).save(tmp_path / "none")
    assert "encoder" not in storage.load(tmp_path / "none")[1]
    assert load(tmp_path / "none").encoder_ is None
