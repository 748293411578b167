"""``deixis caption``: caption photographs; each noun phrase has a box."""

from __future__ import annotations

import sys
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
    print_json,
    print_some,
    stderr_console,
    stoppable,
    track,
    use_threads,
)
from deixis.commands.corpus import write_parts
from deixis.corpus.options import CorpusOptions
from deixis.errors import DeixisError, UsageError
from deixis.images import load_image
from deixis.photographs import find_photographs
from deixis.pipelines.captions_file import CaptionsFile
from deixis.pipelines.models import DEFAULT_CAPTIONER
from deixis.vision.bulk import processes_for

LISTED = 20  # skipped files that are printed


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
    if corpus.given():
        from deixis.corpus.work import CaptionWork

        work = CaptionWork(model, grounder, caption_options(rerank, place, check), device)
        return write_parts(work, photos, corpus, stderr_console(quiet))
    wanted = find_photographs(photos)
    alone = len(wanted) == 1 and (not photos[0].is_dir() or is_clip(photos[0]))
    if branches is not None and not alone:
        raise UsageError("--branches draws one photograph, but several are given. Give one photograph.")
    # an unreadable file is an error at once
    decoded = {str(wanted[0]): load_image(wanted[0])} if alone and not is_clip(wanted[0]) else {}
    console, clock = stderr_console(quiet), Clock()
    with console.status("importing"), clock.measure("import"):
        from deixis.pipelines.caption import caption_stream
        from deixis.pipelines.folder import open_photos
        from deixis.pipelines.models import load_models
        from deixis.pipelines.output import picture_files, print_caption, save_branches, save_picture
    options = caption_options(rerank, place, check)
    pictures = {} if draw is None else picture_files(draw, wanted, alone)
    use_threads(threads)
    with console.status("loading the models"), clock.measure("load"):
        models = load_models(model, grounder, device)
        generation.apply(models.captioner)
    skipped: list[str] = []
    done = low_confidence = 0
    with nullcontext() if out is None else CaptionsFile(out, models.name) as file:
        left = [path for path in wanted if file is None or str(path) not in file.done]
        before = len(wanted) - len(left)
        if before:
            console.print(f"{before:,} of {len(wanted):,} photographs are already captioned.")
        opened = open_photos(left, models.extractor, processes_for(processes, len(left)), skipped.append, decoded)
        if len(left) > 1 and (not sys.stdout.isatty() or (file is not None and not as_json)):
            opened = track(opened, len(left), console)  # else the printed sentences show the progress
        try:
            with stoppable(clock.each("regions", opened)) as given:
                for result in caption_stream(given, models, options, clock.measure):
                    if draw is not None:
                        save_picture(result, pictures[result.caption.image])
                    if branches is not None:
                        save_branches(result, branches)
                    if file is not None:
                        file.write(result.to_dict())
                    if as_json:
                        print_json(result.to_dict(), indent=None)
                    elif file is None:
                        print_caption(result, console, alone, draw is not None)
                    done, low_confidence = done + 1, low_confidence + (not result.confident)
        except KeyboardInterrupt:
            if out is not None:
                console.print(f"Stopped: {out} has {before + done:,} captions. The same command resumes.", markup=False)
            raise
    if skipped and not done and not before:
        raise DeixisError(skipped[0] + ("" if alone else f" None of {len(skipped):,} photographs could be used."))
    if not alone:
        low = f", {low_confidence:,} with low confidence" if low_confidence else ""
        listed = f", {len(skipped):,} skipped:" if skipped else ""
        console.print(f"{done:,} captions{f' added to {out}' if out else ''}{low}{listed}", markup=False)
        print_some(console, skipped, LISTED)
    for picture in (draw, branches):
        if picture is not None:
            console.print(f"drawn: {picture}", markup=False)
    if profile:
        console.print(clock.table(models.backends))
    return 0
