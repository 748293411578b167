"""``deixis caption``: caption photographs; each noun phrase has a box."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import tyro

from deixis.clips import is_clip
from deixis.commands.console import (
    AsJson,
    CheckOption,
    Clock,
    Device,
    Generation,
    GenerationOptions,
    PlaceOption,
    Processes,
    Profile,
    Quiet,
    RerankOption,
    Threads,
    caption_options,
    stderr_console,
    use_threads,
)
from deixis.commands.corpus import write_parts
from deixis.corpus.options import CorpusOptions
from deixis.errors import UsageError
from deixis.photographs import find_photographs
from deixis.pipelines.captions_file import CaptionsFile
from deixis.pipelines.models import DEFAULT_CAPTIONER


def caption(
    photos: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO|DIR")],
    model: str = DEFAULT_CAPTIONER,
    grounder: str | None = None,
    rerank: RerankOption = "grounder",
    place: PlaceOption = None,
    check: CheckOption = "all",
    generation: Generation = GenerationOptions(),  # noqa: B008
    draw: Path | None = None,
    branches: Path | None = None,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    device: Device = "auto",
    processes: Processes = None,
    threads: Threads = 0,
    as_json: AsJson = False,
    profile: Profile = False,
    quiet: Quiet = False,
    *,
    corpus: tyro.conf.OmitArgPrefixes[CorpusOptions] = CorpusOptions(),  # noqa: B008
) -> int:
    """Caption photographs and clips; each noun phrase has a box, in a clip one in every sampled frame.

    With --out, an interrupted run resumes with the same command. Unreadable files are skipped and listed at the end.
    "Low confidence" marks a sentence that a check found unreliable.

    For example: deixis caption photo.jpg --draw captioned.png

    Args:
        photos: photographs, clips (video files, folders of frames 01.jpg .. 10.jpg), and folders of them. With --parts
            photographs only, also globs, list files, parquet files, tar shards and URLs (see docs/scale.md).
        model: captioner, a name of the package or a folder (see deixis models).
        grounder: phrase grounder that reranks sentences and grounds their noun phrases, by name or folder. If not
            given, the default captioner uses the default grounder, other captioners use none. "none" disables it.
        draw: write the photograph with boxes and sentence (.png, .jpg, .svg); for several photographs a folder. Of a
            clip: a strip of its frames, or a clip with boxes (.mp4). A file named words.png shows where the captioner
            attended at every word.
        branches: write the attention of each branch of the captioner at each noun phrase, for one photograph.
        out: append a line of JSON for each photograph to this file; photographs that it has are skipped.
        as_json: write a line of JSON for each photograph to stdout instead of its sentence.
    """
    if not photos:
        raise UsageError("no photograph is given. Give a photograph or a folder, for example: deixis caption photo.jpg")
    if processes is not None and processes < 1:
        raise UsageError("--processes must be at least 1.")
    if corpus != CorpusOptions():
        from deixis.corpus.work import CaptionWork

        work = CaptionWork(model, grounder, caption_options(rerank, place, check), device)
        return write_parts(work, photos, corpus, stderr_console(quiet))
    alone = len(photos) == 1 and (not photos[0].is_dir() or is_clip(photos[0]))
    if branches is not None and not alone:
        raise UsageError("--branches draws one photograph, but several are given. Give one photograph.")
    console, clock = stderr_console(quiet), Clock() if profile else None
    measure = nullcontext if clock is None else clock.measure
    with console.status("importing"), measure("import"):
        from deixis.pipelines.caption import caption as caption_photos
        from deixis.pipelines.clip import open_source
        from deixis.pipelines.models import load_models
        from deixis.pipelines.output import CaptionOutput, picture_files
    photo = open_source(str(photos[0])) if alone else None
    if photo is not None:
        _ = photo.image  # an unreadable file is an error before the models are loaded
    wanted = list(photos) if alone else find_photographs(photos)
    pictures = {} if draw is None else picture_files(draw, wanted, alone)
    options = caption_options(rerank, place, check)
    use_threads(threads)
    with console.status("loading the models"), measure("load"):
        models = generation.apply(load_models(model, grounder, device))
    with nullcontext() if out is None else CaptionsFile(out, models.name) as file:
        output = CaptionOutput(console, alone, as_json, file, pictures, branches)
        left = [path for path in wanted if file is None or str(path) not in file.done]
        if len(left) < len(wanted):
            console.print(f"{len(wanted) - len(left):,} of {len(wanted):,} photographs are already captioned.")
        if photo is None:
            from deixis.commands.caption_files import caption_files

            caption_files(left, models, options, processes, output, measure)
        elif left:
            output.write(*caption_photos([photo], models, options, measure))
    for picture in (draw, branches):
        if picture is not None:
            console.print(f"drawn: {picture}", markup=False)
    if clock is not None:
        console.print(clock.table(models.backends))
    return 0
