"""What is said of the parts of recipes is what the records say."""

from __future__ import annotations

from tests.records import RECIPES, last_of_recipe, record


def test_what_parts_are_worth() -> None:
    names = ("images-cpu-cifar10", "images-plain-fashion_mnist", "images-written-mnist")
    records = [record(f"ablation-{name}") for name in names]
    wholes = [next(row for row in one["ablation"] if row["recipe"]) for one in records]
    words = " ".join(RECIPES.split())

    def without(step: str) -> list[str]:
        rows = [[row for row in one["ablation"] if row["without"] == [step]] for one in records]
        return [
            f"{whole['accuracy'] - row['accuracy']:.4f}"
            for whole, some in zip(wholes, rows, strict=True)
            for row in some
        ]

    mirror, roots = without("mirror images"), without("roots")
    assert f"worth {mirror[0]} on CIFAR-10 and {mirror[1]} on Fashion-MNIST; roots" in words
    assert f"roots {roots[0]}, {roots[1]} and {roots[2]}." in words

    def by_layers(place: int, readout: str) -> float:
        """What layers add to a read-out."""
        rows = {
            row["n_layers"] > 0: row["accuracy"]
            for row in records[place]["ablation"]
            if row["features"] == wholes[place]["features"]
            and (row["readout"], row["whitening"], row["without"]) == (readout, None, [])
            and (row["n_layers"] == 0 or row["step_kind"] == "relative")
        }
        return float(rows[True] - rows[False])

    linear = ("discriminant", "regression", "quadratic")
    added = [[by_layers(place, readout) for readout in linear] for place in range(3)]
    assert min(min(each) for each in added) > 0
    assert max(range(3), key=lambda place: min(added[place])) == 0
    assert f"(by {added[0][0]:.4f}, {added[0][1]:.4f} and {added[0][2]:.4f})" in words
    to_pairs = max(by_layers(place, "pairwise") for place in (1, 2))
    assert f"pairs they help by at most {to_pairs:.4f}." in words
    fashion, mnist = (last_of_recipe(f"ablation-{name}") for name in names[1:])
    assert (
        f"reach {fashion['lda']:.4f} and {fashion['ridge']:.4f} on Fashion-MNIST, "
        f"{mnist['lda']:.4f} and {mnist['ridge']:.4f} on MNIST" in words
    )
