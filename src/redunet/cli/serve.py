"""The command `serve`: a running model behind HTTP, and the page that teaches it."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from redunet.cli.options import (
    Device,
    EncoderName,
    Memory,
    Offload,
    Quiet,
    SignKey,
    read_options,
    receipts_of,
)
from redunet.cli.printing import note, say
from redunet.errors import SettingsError
from redunet.safety import interrupts


def serve(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A model file.", show_default=False)
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Serve scikit-learn's digits; MODEL, if given, is made."),
    ] = False,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The token for changes; by default a new one."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse all changes.")] = False,
    receipts: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Write a deletion receipt of each forget and unlearn."),
    ] = None,
    sign_key: SignKey = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name that the server goes by, as in a URL."),
    ] = None,
    max_body: Annotated[
        int, typer.Option(min=1, max=4096, metavar="MB", help="Most megabytes of a request.")
    ] = 64,
    queue: Annotated[
        int, typer.Option(min=1, max=4096, metavar="N", help="Most requests that wait.")
    ] = 64,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How long one waits, or is sent.")
    ] = 30.0,
    encoder: EncoderName = None,
    device: Device = "auto",
    memory: Memory = "2GB",
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Serve a model: a page to teach it by hand, and an HTTP API (see /docs there).

    Every change is in MODEL, under the lock that all commands take, before it is answered. Changes
    take a token, which is printed once; whoever can reach the address can ask. Ctrl-C ends it.

    Example:

        redunet serve --demo
        redunet serve birds.safetensors --receipts receipts.jsonl
    """
    for package in ("fastapi", "prometheus_client", "python_multipart", "sse_starlette", "uvicorn"):
        if find_spec(package) is None:
            raise SettingsError(
                f"expected the packages of the server, but there is no {package}: "
                f"pip install 'redunet[serve]'"
            )
    from redunet.serve.demo import NAME, write_demo
    from redunet.serve.http import Server, new_token, token_in
    from redunet.serve.options import Options

    if model is None and not demo:
        raise SettingsError("expected a model file to serve, or --demo, got neither")
    interrupts.protect("all changes that were answered are in the file")
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())  # before there are threads, and after
        warnings.simplefilter("ignore", UserWarning)  # what matters is in notes and events
        if model is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="redunet-"))
            model = Path(folder) / NAME
        if demo and not model.exists():
            write_demo(model)
        options = Options(
            token=new_token() if token_file is None else token_in(token_file),
            host=host,
            port=port,
            allow_hosts=tuple(allow_host or ()),
            read_only=read_only,
            receipts=receipts_of(receipts, sign_key, model),
            encoder=read_options("ignored", device, encoder=encoder).encoder,
            body_bytes=max_body * 10**6,
            waiting=queue,
            seconds=timeout,
            device=device,
            memory=memory,
        )
        server = Server(model, options)
        secret = "" if read_only or token_file is not None else f"#token={options.token}"

        def announce() -> None:
            say(f"Serving {model} at {server.url}{secret}")
            if why := server.service.store.failed:
                note(f"no network can be built of {model}, so nothing is answered yet: {why}")
            if secret and not quiet:
                say("Whoever has this address can change the model. Ctrl-C ends the server.")

        server.run(announce)
        if not quiet:
            say(f"Stopped; all changes that were answered are in {model}.")
