"""How fast a server answers, and what it survives: ``python -m benchmarks.serve [CASE ...]``.

Cases: ``load`` (32 clients on loopback, batches of 1 and 64, beside the same model called in
Python), ``clients`` (1,000 requests of eight clients, the final file compared with the same changes
in order) and ``kills`` (kill -9 at 50 random moments). Each writes ``results/serve-CASE.json``, and
the table of docs/serve.md is made of them; ``page`` does that alone.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, machine, record
from benchmarks.readme import between
from redunet import from_recipe
from redunet.estimators import Estimator, load
from redunet.serve.demo import demo_model
from redunet_lab import datasets
from tests.fuzz.serving import interleave, kill, process

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs" / "serve.md"
CLIENTS = 32
SECONDS = 10.0
MOST = 5_000
"""Requests of a case; it ends by these or by SECONDS."""


def digits() -> tuple[Estimator, NDArray[Any]]:
    """The model of ``redunet serve --demo``: 10 classes, 64 values, 10 layers."""
    X = datasets.load("digits").x_test.reshape(-1, 64)
    return demo_model(), X.astype(float)


def clinc150() -> tuple[Estimator, NDArray[Any]]:
    """150 intents of MiniLM vectors, 384 values, the recipe for vectors."""
    data = datasets.load("clinc150")
    model = from_recipe("vectors").fit(data.x_train, data.y_train)
    return model, data.x_test.astype(float)


MODELS: dict[str, Callable[[], tuple[Estimator, NDArray[Any]]]] = {
    "digits": digits,
    "clinc150": clinc150,
}


def measure_load() -> list[Row]:
    """Latencies and throughput of answers, over HTTP and in Python."""
    rows: list[Row] = []
    for name, make in MODELS.items():
        model, X = make()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.safetensors"
            model.save(path)
            for batch in (1, 64):
                samples = [X[np.arange(i, i + batch) % len(X)] for i in range(0, 256, 4)]
                called = in_python(load(path), samples)
                with process(path, "--queue", "256") as (_, client):
                    asked = [body_of(one, client.port) for one in samples]
                    alone = asyncio.run(over_http(client.port, asked, 1))
                    many = asyncio.run(over_http(client.port, asked, CLIENTS))
                rows.append(
                    {
                        "case": f"{name}, batch {batch}",
                        "batch": batch,
                        "clients": CLIENTS,
                        "python": called,
                        "http_1_client": alone,
                        f"http_{CLIENTS}_clients": many,
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    return rows


def in_python(model: Estimator, samples: list[NDArray[Any]]) -> Row:
    """The same model, called by one thread."""
    model.predict_proba(samples[0])
    times: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < SECONDS / 2 and len(times) < MOST:
        begun = time.perf_counter()
        model.predict_proba(samples[len(times) % len(samples)])
        times.append(time.perf_counter() - begun)
    return summary(times, len(samples[0]), time.perf_counter() - start)


def body_of(sample: NDArray[Any], port: int) -> bytes:
    """A request, ready to be sent."""
    body = json.dumps({"samples": sample.tolist()}).encode()
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def over_http(port: int, asked: list[bytes], clients: int) -> Row:
    """Clients that each send their next request when the last one is answered."""
    times: list[float] = []
    start = time.perf_counter()

    async def client(place: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn = place
        while time.perf_counter() - start < SECONDS and len(times) < MOST:
            begun = time.perf_counter()
            writer.write(asked[turn % len(asked)])
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - begun)
            turn += clients
        writer.close()

    await asyncio.gather(*(client(place) for place in range(clients)))
    batch = len(json.loads(asked[0].split(b"\r\n\r\n", 1)[1])["samples"])
    return summary(times, batch, time.perf_counter() - start)


def summary(times: list[float], batch: int, seconds: float) -> Row:
    """Requests, their p50 and p99 in milliseconds, and samples a second."""
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    return {
        "requests": len(times),
        "seconds": round(seconds, 2),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "requests_a_second": round(len(times) / seconds, 1),
        "samples_a_second": round(batch * len(times) / seconds, 1),
    }


def counted(what: str, n: int, attack: Callable[[int, int], list[str]]) -> list[Row]:
    """How many faults an attack found."""
    start = time.perf_counter()
    faults = attack(n, 0)
    print(what, n, faults, flush=True)
    seconds = round(time.perf_counter() - start, 1)
    return [{"case": what, "count": n, "faults": len(faults), "seconds": seconds}]


CASES: dict[str, Callable[[], list[Row]]] = {
    "load": measure_load,
    "clients": lambda: counted("requests of 8 clients", 1_000, interleave),
    "kills": lambda: counted("kill -9 at a random moment", 50, kill),
}


MARK = "serve table: benchmarks/results/serve-*.json"


def page(text: str) -> str:
    """docs/serve.md with what the records say."""
    found = {name: json.loads((RESULTS / f"serve-{name}.json").read_text()) for name in CASES}
    load = found["load"]["machine"]
    head = "| | Python, one call after another | HTTP, 1 client | HTTP, 32 clients |"
    lines = [head, "| --- | ---: | ---: | ---: |"]
    for row in found["load"]["rows"]:
        cells = [
            f"{one['p50_ms']:,.1f} / {one['p99_ms']:,.1f} ms, {one['samples_a_second']:,.0f}/s"
            for one in (row["python"], row["http_1_client"], row[f"http_{CLIENTS}_clients"])
        ]
        lines.append(f"| {row['case']} | {' | '.join(cells)} |")
    survived = {name: found[name]["rows"][0] for name in ("clients", "kills")}
    said = (
        f"p50 / p99 of a request, and samples a second; {load['cpu']}, shared with other programs "
        f"(load {load['load_before']} before), so ratios say more than times. Server, clients and "
        f"model run on the same cores. Many single samples are answered together, one batch while "
        f"the next one waits. {survived['clients']['count']:,} learn, forget and predict requests "
        f"of 8 clients at once ended in the file of the same changes in order "
        f"({survived['clients']['faults']} faults); after kill -9 at {survived['kills']['count']} "
        f"random moments every answered change was in the file, no other one half, and what was "
        f"sent again counted once ({survived['kills']['faults']} faults). "
        f"`python -m benchmarks.serve` repeats all of it."
    )
    return between(text, MARK, "\n".join([*lines, "", *textwrap.wrap(said, 100)]))


def main() -> None:
    """Measure the cases named on the command line, or all, and put them into docs/serve.md."""
    names = sys.argv[1:] or list(CASES)
    for name in [name for name in names if name != "page"]:
        about = machine()
        record(RESULTS / f"serve-{name}.json", about, CASES[name]())
    DOCS.write_text(page(DOCS.read_text()))


if __name__ == "__main__":
    main()
