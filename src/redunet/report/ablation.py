"""What a report of a recipe says: its accuracy beside rivals', and what each ingredient adds."""

from __future__ import annotations

from collections.abc import Sequence

from redunet.report.blocks import Block, Code, Grid, Picture, Plot, Section, Words
from redunet.report.record_plots import (
    accuracy_plot,
    confusion_plot,
    matrix_view,
    recipe_curves,
)
from redunet.report.sections import in_words, joint_words, plain, stream_grid
from redunet.report.seeds import Record, Spread, by_task, over_seeds, paper_rows
from redunet.report.tables import (
    READOUT_NAMES,
    UNKNOWN,
    grid_markdown,
    in_bytes,
    in_seconds,
    markdown_table,
    markdown_text,
    measure,
    shown,
    three,
)

MEASURES = ("average", "forgetting", "decay")

_CLOSED = {"ncm", "lda", "ridge", "qda"}
_WITH_EXEMPLARS = {"icarl": "iCaRL", "er": "ER", "derpp": "DER++"}
_PLACES = 4
"""Of accuracies: methods on the same features may differ by a few samples in ten thousand."""


def ablation_sections(record: Record) -> list[Section]:
    """Everything that a report of a recipe says, in order.

    Parameters
    ----------
    record : mapping
        A record of `redunet ablate`.
    """
    found = [
        Section("Result", _result(record)),
        Section("What each ingredient adds", _ingredients(record)),
        Section("Incremental against joint training", _joint(record)),
        Section("What is left of each task", _by_task(record)),
        Section("What is taken for what", _confusion(record)),
        Section("What it costs", _cost(record)),
        Section("What was run", _what_was_run(record)),
        Section("Where and when", [_environments(record)]),
    ]
    return [section for section in found if section.blocks]


def recipe_grid(record: Record, measures: tuple[str, ...] = MEASURES) -> Grid:
    """Accuracy on all classes seen after each task, of the recipe, its rivals and the paper.

    Parameters
    ----------
    record : mapping
    measures : tuple of str, default=all
        Of the stream as a whole, in columns of their own.
    """
    rows = []
    for method in record["methods"]:
        name = f"{method['name']} (ours)" if method["method"] == "redunet" else method["name"]
        summaries = [run["summary"] for run in method["runs"]]
        over_stream = [measure(summaries, key) for key in measures]
        accuracies = [shown(value, _PLACES) for value in by_task(method, "accuracy")]
        rows.append([name, *accuracies, *over_stream])
    for name, values in paper_rows(record).items():
        blank = [UNKNOWN] * len(measures)
        rows.append([f"{name}, paper (theirs)", *map(three, values), *blank])
    tasks = [f"task {number}" for number in range(1, len(record["stream"]) + 1)]
    caption = "Accuracy on all classes seen, after each task"
    return Grid(caption, ["", *tasks, *measures], rows, strong=[0])


def ingredients_grid(record: Record) -> Grid:
    """Accuracy after the last task with each ingredient alone, and together."""
    rows = [
        [
            _features(row),
            UNKNOWN if row["whitening"] is None else f"ρ = {row['whitening']:g}",
            f"{row['n_layers']}, {row['step_kind']} step {row['step']:g}"
            if row["n_layers"]
            else UNKNOWN,
            READOUT_NAMES.get(row["readout"], row["readout"])
            + (f", {row['n_components']}" if row["readout"] == "subspace" else ""),
            f"{row['accuracy']:.{_PLACES}f}",
        ]
        for row in record["ablation"]
    ]
    strong = [index for index, row in enumerate(record["ablation"]) if row["recipe"]]
    seed = f", seed {record['runs'][0]['seed']}" if record["random"] else ""
    caption = f"Ingredients alone and together, after the last task{seed}; in bold the recipe"
    headings = ["features", "whitening", "layers", "read-out", "accuracy"]
    return Grid(caption, headings, rows, text_columns=4, strong=strong)


def _features(row: Record) -> str:
    """A variant's feature maps, what is left out of them, and how many features they give."""
    maps = " + ".join(row["features"].split("+"))
    without = "".join(f" without {step}" for step in row.get("without", ()))
    return f"{maps}{without}, {row['n_features']:,}"


def recipe_markdown(record: Record) -> str:
    """Tables for README and docs: the recipe beside its rivals, then its ingredients, if known."""
    rivals = grid_markdown(recipe_grid(record, ()))
    if not record["ablation"]:
        return rivals
    ingredients = ingredients_grid(record)
    caption = markdown_text(ingredients.caption)
    return f"{rivals}\n\n{caption}:\n\n{grid_markdown(ingredients)}"


def recipes_markdown(records: Sequence[Record]) -> str:
    """A row for each recipe: its network, the best rivals, the paper, after the last task.

    Parameters
    ----------
    records : sequence of mapping
        Of recipes, and of comparisons on the same data sets where there are some.
    """
    gradient = {
        record["data"]: {m["method"]: _last(m) for m in record["methods"] if "kind" in m}
        for record in records
        if "recipe" not in record
    }
    rows = []
    for record in records:
        if "recipe" not in record:
            continue
        last = {method["method"]: _last(method) for method in record["methods"]}
        names = {method["method"]: method["name"] for method in record["methods"]}
        best = max(_CLOSED & last.keys(), key=lambda method: last[method].mean)
        theirs = gradient.get(record["data"], {})
        kept = {method: theirs[method] for method in _WITH_EXEMPLARS if method in theirs}
        name = max(kept, key=lambda method: kept[method].mean, default=None)
        paper = [values[-1] for values in paper_rows(record).values()]
        rows.append(
            [
                f"{record['what'].split(' on ')[1].split(',')[0]}, {record['recipe']}",
                shown(last["redunet"], _PLACES),
                f"{shown(last[best], _PLACES)} ({names[best]})",
                shown(last["subspace"], _PLACES),
                three(paper[0]) if paper else UNKNOWN,
                UNKNOWN if name is None else f"{shown(kept[name])} ({_WITH_EXEMPLARS[name]})",
                shown(theirs["joint"]) if "joint" in theirs else UNKNOWN,
            ]
        )
    heads = ["", "ReduNet (ours)", "best closed form, same features", "nearest subspace"]
    heads += ["ReduNet, paper (theirs)", "best with 200 exemplars", "joint training, gradient"]
    return markdown_table(heads, rows)


def _last(method: Record) -> Spread:
    """Accuracy after the last task, over seeds."""
    return over_seeds([[run["tasks"][-1]["accuracy"]] for run in method["runs"]])[0]


def recipe_notes(record: Record) -> list[str]:
    """What a reader of the accuracies should know."""
    said = [
        "All methods here are functions of the same class moments of the same features, learnt "
        "task after task; none keeps a sample. All but ReduNet are without layers."
    ]
    seeds = [run["seed"] for run in record["runs"]]
    if len(seeds) > 1:
        words = ", ".join(map(str, seeds))
        said.append(f"Seeds {words}; ± is the standard deviation over seeds (n − 1).")
    else:
        said.append(f"Seed {seeds[0]}." if record["random"] else "Nothing in it is random.")
    how = [
        f"of {method['name'].split(',')[0]} {method['chosen']}"
        for method in record["methods"]
        if method["method"] not in ("subspace", "ncm")
    ]
    said.append(f"{record['chosen_on']} Settings: {'; '.join(how)}.")
    if paper_rows(record):
        said.append(f"Theirs: as printed in {record['paper']['source']}, not run again here.")
    return said


def _ingredients(record: Record) -> list[Block]:
    return [ingredients_grid(record), Words(_rule(record))] if record["ablation"] else []


def _rule(record: Record) -> str:
    said = "Of features: their name and number; of the nearest subspace: its components. Where the "
    said += "recipe has none of an ingredient, it is tried at a value stated in advance. All "
    said += "settings not named are the recipe's."
    paper = any(row["step_kind"] == "absolute" for row in record["ablation"] if not row["recipe"])
    return f"{said} The absolute step is the paper's." if paper else said


def _result(record: Record) -> list[Block]:
    drawn = {
        method["name"]: [value.mean for value in by_task(method, "accuracy")]
        for method in record["methods"]
    }
    alt = in_words("Line chart of accuracy against the number of tasks seen", drawn)
    picture = Picture("accuracy", alt, "Accuracy against the number of tasks seen.")
    plot = accuracy_plot(recipe_curves(record), picture)
    return [recipe_grid(record), *map(Words, recipe_notes(record)), plot]


def _joint(record: Record) -> list[Block]:
    return [Words(joint_words(run["joint"])) for run in record["runs"] if run.get("joint")]


def _by_task(record: Record) -> list[Block]:
    views, rows = [], []
    for method in record["methods"]:
        tasks = zip(*(run["tasks"] for run in method["runs"]), strict=True)
        matrix = [over_seeds([row["accuracy_by_task"] for row in rows_]) for rows_ in tasks]
        views.append(matrix_view(method["name"], matrix))
        rows.append([method["name"], *map(shown, matrix[-1])])
    headings = ["", *(", ".join(map(str, task["classes"])) for task in record["stream"])]
    grid = Grid("Accuracy on each task's own classes, after the last task", headings, rows)
    caption = "Accuracy on each task's own classes, after each task."
    return [grid, Plot(caption, views, "method")]


def _confusion(record: Record) -> list[Block]:
    known = {m["name"]: m["confusion"] for m in record["methods"] if m.get("confusion")}
    return [confusion_plot(known, "After the last task, over all seeds.")] if known else []


def _cost(record: Record) -> list[Block]:
    rows = [
        [
            str(run["seed"]),
            f"{run['n_features']:,}",
            in_bytes(run["moments_bytes"]),
            *(
                in_seconds(run["seconds"][part]) if part in run["seconds"] else UNKNOWN
                for part in ("learn", "evaluate", "ablation")
            ),
            in_bytes(run["peak_memory_bytes"]),
            in_bytes(run["peak_device_memory_bytes"])
            if run["peak_device_memory_bytes"]
            else UNKNOWN,
        ]
        for run in record["runs"]
    ]
    headings = ["seed", "features", "moments", "seconds learning", "seconds labelling"]
    headings += ["seconds for the variants", "memory", "GPU memory"]
    caption = "Moments as a file holds them after the last task, time, and most memory held at once"
    times = [
        [method["name"], in_seconds(over_seeds(_last_seconds(method))[0].mean)]
        for method in record["methods"]
    ]
    words = "Seconds from moments and feature vectors to labels, after the last task"
    return [Grid(caption, headings, rows), Grid(words, ["", "seconds"], times)]


def _last_seconds(method: Record) -> list[list[float]]:
    return [[run["tasks"][-1]["seconds"]] for run in method["runs"]]


def _what_was_run(record: Record) -> list[Block]:
    settings = [
        [
            method["name"],
            ", ".join(f"{key} {plain(value)}" for key, value in method["settings"].items())
            or UNKNOWN,
            method["chosen"],
        ]
        for method in record["methods"]
    ]
    names = ["method", "settings other than the usual", "how they came about"]
    return [
        Code(record["command"]),
        stream_grid(record, "test samples, all classes seen"),
        Grid("Settings", names, settings, text_columns=3),
    ]


def _environments(record: Record) -> Grid:
    """Where and when each seed was run."""
    rows = []
    for run in record["runs"]:
        machine = run["machine"]
        where = machine["gpu"] or f"{machine['processor']}, {machine['threads']} threads"
        versions = ", ".join(f"{name} {value}" for name, value in run["versions"].items())
        rows.append([str(run["seed"]), run["date"], where, versions])
    headings = ["seed", "date", "machine", "versions"]
    return Grid("Date, machine and versions of each seed", headings, rows, text_columns=4)
