"""Parameter names of earlier versions, accepted when weights are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


def accept_old_names(module: nn.Module, renamed: Mapping[str, str]) -> None:
    """Make ``module.load_state_dict`` accept old names; ``renamed`` maps a part of a dotted name to its new form."""

    def rename(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
        for name in [name for name in state if name.startswith(prefix)]:
            parts = name.removeprefix(prefix).split(".")
            new = prefix + ".".join(renamed.get(part, part) for part in parts)
            if new != name:
                state[new] = state.pop(name)

    module.renamed_parts = renamed  # type: ignore[assignment]  # read by model_folder, before weights are loaded
    module.register_load_state_dict_pre_hook(rename)  # type: ignore[no-untyped-call]


def ignore_old_names(module: nn.Module, *names: str) -> None:
    """Make ``module.load_state_dict`` ignore parameters that earlier versions had without effect."""

    def drop(_: nn.Module, state: dict[str, Tensor], prefix: str, *__: Any) -> None:
        for name in names:
            state.pop(prefix + name, None)

    module.ignored_names = names  # type: ignore[assignment]  # read by model_folder, before weights are loaded
    module.register_load_state_dict_pre_hook(drop)  # type: ignore[no-untyped-call]
