"""``deixis serve``: web page and HTTP API."""

from __future__ import annotations

import tyro

from deixis.commands.console import (
    AllowHost,
    AsJson,
    Browse,
    Device,
    Host,
    Port,
    Quiet,
    Threads,
    print_json,
    print_ready,
    stderr_console,
    use_threads,
)
from deixis.errors import requires_extra
from deixis.pipelines.models import DEFAULT_CAPTIONER, model_names


def serve(
    *,
    model: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    host: Host = "127.0.0.1",
    allow_host: AllowHost = (),
    port: Port = 8421,
    threads: Threads = 0,
    waiting: int = 32,
    megabytes: float = 20.0,
    megapixels: float = 50.0,
    browse: Browse = False,
    device: Device = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Serve a web page and an HTTP API; after Ctrl-C, accepted requests are answered before the server stops.

    For example: deixis serve --browse

    Args:
        model: a name of the package or the folder of a trained model; give it several times to load several captioners
            and grounders and compare them. By default all models of the package.
        waiting: largest number of requests in progress; others are refused with a time to retry.
        megabytes: maximum size of an upload.
        megapixels: maximum size of a photograph.
        as_json: write JSON to stdout: address and models when the server is ready, and the number of answered requests
            (including one start-up request per model) at the end.
    """
    console = stderr_console(quiet)
    with requires_extra("serve"):
        from deixis.serve.app import create_app
        from deixis.serve.guard import Hosts
        from deixis.serve.run import listen, run_app
        from deixis.serve.upload import UploadLimits
    listener = listen(host, port)
    with console.status("loading the models"):
        from deixis.pipelines.models import load_model
        from deixis.serve.engine import Engine, Limits

        use_threads(threads)
        models = [load_model(one, device) for one in model or model_names() or (DEFAULT_CAPTIONER,)]
        engine = Engine(models, Limits(pixels=round(megapixels * 1e6), waiting=waiting))
        engine.warm()
    app = create_app(engine, UploadLimits(bytes=round(megabytes * 1e6)), Hosts.of(host, allow_host))
    about = f"({', '.join(engine.models)}). Ctrl-C stops the server."
    print_ready(console, listener.url, listener.public, about, {"models": list(engine.models)} if as_json else None)
    run_app(app, listener, browse=browse, shutdown_seconds=120)
    console.print(f"Stopped after answering all {engine.answered:,} accepted requests.", markup=False)
    if as_json:
        print_json({"answered": engine.answered}, indent=None)
    return 0
