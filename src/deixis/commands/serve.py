"""``deixis serve``: the page in a browser and the HTTP interface."""

from __future__ import annotations

import json
import threading
import webbrowser
from typing import Annotated

import tyro
from rich.console import Console

from deixis.errors import DeixisError
from deixis.pipelines.load import CAPTIONER, model_names

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def serve(
    *,
    model: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    host: str = "127.0.0.1",
    port: int = 8421,
    threads: int = 0,
    waiting: int = 32,
    megabytes: float = 20.0,
    megapixels: float = 50.0,
    browse: Switch = False,
    device: str = "auto",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Serve the page and the HTTP interface; Ctrl-C ends it when what was asked is answered.

    For example: deixis serve --browse

    Args:
        model: a name of the package or the folder of a trained model; give it several times to load captioners and
            models that find phrases, which can then be compared. All of the package if none is given.
        host: the address to listen on; 0.0.0.0 lets others in your network use it.
        port: the port to listen on; 0 takes a free one.
        threads: of the computations; 0 leaves it to torch.
        waiting: the most requests under way at once; who comes beyond them is told when to try again.
        megabytes: the largest upload.
        megapixels: the largest photograph.
        browse: open the page in a browser.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        as_json: write JSON to stdout: the address and the models when the page is ready, the number of requests that
            were answered (one for each model is its own) at the end.
        quiet: say nothing.
    """
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    try:
        import uvicorn

        from deixis.serve.app import create_app
        from deixis.serve.listening import LOOPBACK, address, listen, run
        from deixis.serve.upload import UploadLimits
    except ModuleNotFoundError as error:
        raise DeixisError(
            f"{error.name} is not installed; pip install 'deixis[serve]' brings what this needs."
        ) from None
    ear = listen(host, port)
    with talk.status("loading the models"):
        import torch

        from deixis.pipelines.load import load_model
        from deixis.serve.engine import Engine, Limits

        if threads:
            torch.set_num_threads(threads)
        models = [load_model(one, device) for one in model or model_names() or (CAPTIONER,)]
        engine = Engine(models, Limits(pixels=round(megapixels * 1e6), waiting=waiting))
        engine.warm()
    url = address(host, ear)
    app = create_app(engine, UploadLimits(bytes=round(megabytes * 1e6)))
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=120)
    if host not in LOOPBACK:
        talk.print("everyone who can reach this machine can use it; there is no password.", markup=False)
    talk.print(f"ready: {url} ({', '.join(engine.models)}); Ctrl-C ends it.", markup=False)
    if as_json:
        print(json.dumps({"url": url, "models": list(engine.models)}), flush=True)
    if browse:
        threading.Timer(0.5, webbrowser.open, [url]).start()
    run(uvicorn.Server(config), ear)
    talk.print(f"stopped; all {engine.answered:,} requests that were taken have been answered.", markup=False)
    if as_json:
        print(json.dumps({"answered": engine.answered}))
    return 0
