"""METEOR and SPICE, computed by their Java programs (install ``deixis[java]``).

Each metric is one Java run over all captions, with a time limit. The process has ended when the function returns or
raises. :class:`JavaError` gives the reason of a failure, so that the other metrics can still be computed.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deixis.errors import DeixisError
from deixis.metrics.ngrams import Hypotheses, References, Sentence, check_captions, per_image_text
from deixis.metrics.score import RULES, Score, Values, make_score, mean_score, signature

SPICE_PARSER = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
METEOR_STATISTICS = 23


class JavaError(DeixisError):
    """A Java metric failed; the message has the missing file or Java's error."""


def meteor(hypotheses: Hypotheses, references: References, tok: str = "given", seconds: float | None = None) -> Score:
    """Compute METEOR 1.5 for English with its normalisation, as in the COCO caption evaluation.

    The Java program aligns each caption with its best reference and prints counts. The score is
    :func:`meteor_of_sums` of these counts. ``seconds`` is the time limit, by default 120 + 0.1 per image.
    """
    images = check_captions(hypotheses, references)
    jar = require_meteor()
    lines = [
        " ||| ".join(["SCORE", *(_text(reference) for reference in references[image]), _text(hypotheses[image])])
        for image in images
    ]
    answer = _run(
        "METEOR",
        ["-Xmx2G", "-jar", jar.name, "-", "-", "-stdio", "-l", "en", "-norm"],
        cwd=jar.parent,
        seconds=120 + 0.1 * len(images) if seconds is None else seconds,
        text="\n".join(lines) + "\n",
    )
    try:
        stats = np.array([line.split() for line in answer.splitlines() if line.strip()], dtype=np.float64)
    except ValueError:
        stats = np.zeros((0, 0))
    if stats.shape != (len(images), METEOR_STATISTICS):
        raise JavaError(
            f"METEOR output is incomplete: expected {METEOR_STATISTICS} numbers for each of {len(images)} captions."
        )
    # One chunk that covers both sentences completely counts as no fragmentation, as in the Java program.
    stats[(stats[:, 20] == 1) & (stats[:, 21:23] == stats[:, :2]).all(1), 20] = 0
    text = signature(refs=per_image_text(references), meteor="1.5", lang="en", norm="yes", tok=tok)
    return make_score("METEOR", images, meteor_of_sums(stats), stats, "meteor", text)


def meteor_of_sums(sums: Values) -> Values:
    """Compute METEOR ``[B]`` from sums ``[B, 23]`` of the program's counts (Denkowski and Lavie 2014).

    Columns: words of caption and reference, function words of each; for exact, stem, synonym and paraphrase matches
    the content words matched in caption and reference and the function words matched in each; chunks; all words
    matched in each.
    """
    alpha, beta, gamma, delta = 0.85, 0.2, 0.6, 0.75  # the authors' values for English
    weights = np.array([1.0, 0.6, 0.8, 0.6])
    matches = sums[:, 4:20].reshape(-1, 4, 4)  # [B, matcher, (content, content, function, function)]
    fraction = []
    for side in (0, 1):  # precision over the caption, recall over the reference
        length, function = sums[:, side], sums[:, 2 + side]
        matched = (delta * matches[:, :, side] + (1 - delta) * matches[:, :, 2 + side]) @ weights
        fraction.append(_divide(matched, delta * (length - function) + (1 - delta) * function))
    precision, recall = fraction
    mean = _divide(precision * recall, alpha * precision + (1 - alpha) * recall)
    fragmentation = _divide(sums[:, 20], (sums[:, 21] + sums[:, 22]) / 2)
    return mean * (1 - gamma * fragmentation**beta)


RULES["meteor"] = meteor_of_sums


def spice(
    hypotheses: Hypotheses,
    references: References,
    jars: Path | None = None,
    tok: str = "given",
    seconds: float | None = None,
) -> Score:
    """Compute SPICE 1.0: mean F-score of scene-graph tuples over images.

    ``jars`` is a folder with the two files of Stanford CoreNLP 3.6.0 that SPICE needs. The default is the folder of
    ``pycocoevalcap``. Nothing is downloaded. ``seconds`` is the time limit, by default 600 + 5 per image.
    """
    images = check_captions(hypotheses, references)
    program, folder = require_spice(jars)
    captions = [
        {"image_id": image, "test": _text(hypotheses[image]), "refs": [_text(words) for words in references[image]]}
        for image in images
    ]
    path = [program / "spice-1.0.jar", program / "lib" / "*", folder / "*"]
    with tempfile.TemporaryDirectory(prefix="deixis-spice-") as scratch:
        input_path, output_path = Path(scratch, "captions.json"), Path(scratch, "scores.json")
        input_path.write_text(json.dumps(captions), encoding="utf-8")
        _run(
            "SPICE",
            [
                *("-Xmx8G", "-cp", os.pathsep.join(map(str, path)), "edu.anu.spice.SpiceScorer"),
                *(str(input_path), "-out", str(output_path), "-silent"),
            ],
            cwd=Path(scratch),
            seconds=600 + 5 * len(images) if seconds is None else seconds,
        )
        try:
            scores = {
                item["image_id"]: item["scores"]["All"]["f"] for item in json.loads(output_path.read_text("utf-8"))
            }
            items = [math.nan if scores[image] is None else float(scores[image]) for image in images]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JavaError(
                f"SPICE did not return a score for every caption ({error!r}). Run the command again."
            ) from None
    return mean_score("SPICE", images, items, signature(refs=per_image_text(references), spice="1.0", tok=tok))


def require_meteor() -> Path:
    """Return the jar of METEOR; raise :class:`JavaError` if it or Java is not installed."""
    jar = _package() / "meteor" / "meteor-1.5.jar"
    _java("METEOR")
    return jar


def require_spice(jars: Path | None = None) -> tuple[Path, Path]:
    """Return the folders of SPICE and of its parser; raise :class:`JavaError` if one of them or Java is missing."""
    program = _package() / "spice"
    folder = program / "lib" if jars is None else jars.resolve()
    absent = [name for name in SPICE_PARSER if not (folder / name).is_file()]
    if absent:
        raise JavaError(
            f"SPICE needs {' and '.join(absent)}, which {folder} does not have. Both jars are in the archive "
            "stanford-corenlp-full-2015-12-09 of the Stanford NLP group. Copy them to one folder and give deixis score "
            "this folder with --spice-jars."
        )
    _java("SPICE")
    return program, folder


def _java(metric: str) -> str:
    java = shutil.which("java")
    if java is None:
        raise JavaError(f"{metric} is a Java program, and 'java' is not on the PATH. Install a Java runtime.")
    return java


def _package() -> Path:
    """Folder of the package pycocoevalcap, which includes the jars."""
    found = importlib.util.find_spec("pycocoevalcap")
    if found is None or not found.submodule_search_locations:
        raise JavaError("METEOR and SPICE need the package pycocoevalcap. Install it: pip install 'deixis[java]'")
    return Path(next(iter(found.submodule_search_locations)))


def _run(metric: str, arguments: Sequence[str], cwd: Path, seconds: float, text: str = "") -> str:
    java = _java(metric)
    # Fixed locale: encoding and lower case must not depend on the machine.
    locale = ["-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"]
    command = [java, *locale, *arguments]
    try:
        done = subprocess.run(command, cwd=cwd, input=text.encode(), capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise JavaError(f"{metric} did not finish in {seconds:.0f} s and was stopped.") from None
    except OSError as error:
        raise JavaError(f"{metric} could not start {java} ({error.strerror}). Check the Java installation.") from None
    if done.returncode != 0:
        messages = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        raise JavaError(
            f"{metric} failed: {messages[0].strip() if messages else f'Java ended with code {done.returncode}'}."
        )
    return done.stdout.decode(errors="replace")


def _text(sentence: Sentence) -> str:
    """Join the words in one line, without METEOR's separator ``|||``."""
    if any(not isinstance(token, str) for token in sentence):
        raise TypeError("METEOR and SPICE need words, not word ids")
    return " ".join(" ".join(map(str, sentence)).replace("|||", " ").split())


def _divide(above: Values, below: Values) -> Values:
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)
