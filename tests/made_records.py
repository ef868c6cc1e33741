"""Records made up for tests of reports, and what a report or page is read with."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from redunet.report.blocks import Chapter, Figure
from redunet.report.html import to_html
from redunet_lab.report.sections import chapter
from redunet_lab.report.text import to_markdown

KNOWN = "html head meta title style body header h1 nav ul li a main section h2 p div table thead"
KNOWN += " tbody tr th td pre code span figure figcaption details summary fieldset legend input"
KNOWN += " label svg defs g path use text clippath rect image"
OURS = [0.9994, 0.9885, 0.9811, 0.9750, 0.9587]
HOSTILE = '<script>x</script> a|b `c` *d* _e_ [red]f[/] $\\frac{ & "</td></table>'


def a_run(seed: int, accuracies: Sequence[float], joint: bool = True) -> dict[str, Any]:
    tasks = [
        {
            "accuracy": accuracy,
            "no_layers_accuracy": accuracy - 0.0625,
            "accuracy_by_task": [accuracy - s / 8 for s in range(t + 1)],
            "seconds": {"learn": 1.25, "evaluate": 1234.5},
        }
        for t, accuracy in enumerate(accuracies)
    ]
    same = {"moments": True, "network": True, "file": True, "labels_that_differ": 0}
    return {
        "seed": seed,
        "tasks": tasks,
        "rates": {"R": [4.0, 5.0], "R_c": [3.0, 2.0], "delta_R": [1.0, 3.0]},
        **({"joint": {"accuracy": accuracies[-1], "equivalence": same}} if joint else {}),
        "peak_memory_bytes": 1_230_000_000 + seed,
        "summary": {
            "last": accuracies[-1],
            "average": 0.5,
            "decay": 0.25,
            "forgetting": 0.125,
        },
    }


def a_stream(n_tasks: int) -> list[dict[str, Any]]:
    return [
        {
            "classes": [2 * t, 2 * t + 1],
            "train_samples": 12000 + t,
            "test_samples": 2000 * (t + 1),
        }
        for t in range(n_tasks)
    ]


def a_record(*variants: list[dict[str, Any]]) -> dict[str, Any]:
    rivals = {
        "LwF": [0.999, 0.494, 0.333, 0.252, 0.196],
        "iCaRL": [0.999, 0.889, 0.8, 0.768, 0.7],
    }
    source = "Wu et al., CVPR 2021, Table 1"
    return {
        "kind": "experiment",
        "version": 2,
        "what": "ReduNet on MNIST, as published",
        "command": "redunet reproduce mnist --out somewhere",
        "data": "mnist",
        "title": "MNIST",
        "stream": a_stream(max(len(run["tasks"]) for runs in variants for run in runs)),
        "paper": {"row": [0.999, 0.990, 0.984, 0.975, 0.961], "rivals": rivals, "source": source},
        "methods": [
            {
                "method": "redunet",
                "name": f"variant {i}",
                "type": "moments",
                "random": True,
                "settings": {"n_layers": 200, "x": None, f"y{i}": [1]},
                "changed": {},
                "raw_data_kept": False,
                "runs": runs,
            }
            for i, runs in enumerate(variants)
        ],
        "date": "2026-11-15",
        "machine": {"processor": "a processor", "cores": 2, "threads": 2, "gpu": None},
        "versions": {"redunet": "0.1.0", "torch": "2.6.0"},
    }


def three_seeds() -> list[dict[str, Any]]:
    first = (0.7, 0.8, 0.9)
    return [a_run(seed, [x, x - 0.1, 0.5, 0.5, 0.5], seed == 0) for seed, x in enumerate(first)]


def hostile() -> dict[str, Any]:
    record = a_record([a_run(0, OURS)])
    record["what"] = record["command"] = HOSTILE
    record["command"] += "\n```\n"
    record["paper"]["source"] = HOSTILE
    record["machine"] = {"processor": HOSTILE, "threads": HOSTILE, "gpu": None}
    record["methods"][0] |= {"name": HOSTILE, "settings": {HOSTILE: HOSTILE}}
    return record


def without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A record of which some parts were not written down."""
    record = copy.deepcopy(record)
    for run in [run for method in record["methods"] for run in method["runs"]]:
        for part in [run, *run["tasks"]]:
            for key in keys:
                part.pop(key, None)
    return record


RECORDS = {
    "one seed": a_record([a_run(0, OURS)]),
    "three seeds": a_record(three_seeds()),
    "two variants": a_record(three_seeds(), [a_run(0, OURS, joint=False)]),
    "not compared": a_record([a_run(0, OURS, joint=False)]),
    "four tasks": a_record([a_run(0, OURS[:4])]),
    "one task": a_record([a_run(0, OURS[:1])]),
    "no paper": a_record([a_run(0, OURS)]) | {"paper": None},
    "bare": without(
        a_record([a_run(0, OURS)]),
        *("joint", "summary", "accuracy_by_task", "seconds", "no_layers_accuracy", "rates"),
        "peak_memory_bytes",
    ),
    "hostile": hostile(),
}


def html_of(record: dict[str, Any]) -> str:
    return _html_of(json.dumps(record))


@cache
def _html_of(record: str) -> str:
    return to_html([chapter(json.loads(record))])


def markdown_of(record: dict[str, Any], *pictures: str) -> str:
    return to_markdown(chapter(record), pictures)


def figures_of(*chapters: Chapter) -> list[Figure]:
    """The figures of chapters in their order."""
    sections = [section for one in chapters for section in one.sections]
    return [block for one in sections for block in one.blocks if isinstance(block, Figure)]


def plots_of(page: str) -> list[list[str]]:
    """Of each figure of a page, the words in each of its pictures, in one line."""
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    pictures = [re.findall(r"<svg.*?</svg>", figure, re.DOTALL) for figure in figures]
    return [[" ".join(re.findall(r">([^<>\n]+)</text>", one)) for one in some] for some in pictures]


every_record = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())


def tables_of_equal_columns(text: str) -> list[int]:
    """The columns of each table of a Markdown report; all rows of a table have as many."""
    text = re.sub(r"^(`{3,})sh\n.*?^\1$", "", text, flags=re.M | re.S)
    assert "<" not in text
    columns = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        # Of a run of backslashes before a bar, an odd number leaves the bar as text.
        counts = {
            sum(not len(slashes) % 2 for slashes in re.findall(r"(\\*)\|", line))
            for line in table.splitlines()
        }
        assert len(counts) == 1
        columns.append(counts.pop() - 1)
    return columns


class Page(HTMLParser):
    """What is on a page; every tag must close in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def with_tag(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]
