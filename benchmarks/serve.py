"""How fast a server answers, and what it survives: ``python -m benchmarks.serve [CASE ...]``.

Cases: ``load`` (32 clients on loopback, batches of 1 and 64, beside the same model called in
Python), ``clients`` (1,000 requests of eight clients, the final file compared with the same changes
in order) and ``kills`` (kill -9 at 50 random moments). Each writes ``results/serve-CASE.json``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Row, machine, record
from redunet import datasets, from_recipe
from redunet.estimators import Estimator, load
from redunet.serve.demo import demo_model
from tests.fuzz.serving import interleave, kill, process

RESULTS = Path(__file__).parent / "results"
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
    model = from_recipe("embeddings").fit(data.x_train, data.y_train)
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


def main() -> None:
    """Measure the cases named on the command line, or all."""
    for name in sys.argv[1:] or CASES:
        about = machine()
        record(RESULTS / f"serve-{name}.json", about, CASES[name]())


if __name__ == "__main__":
    main()
