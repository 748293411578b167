"""Largest differences between the weights of one process and of two (gloo), in double precision, for each method.

    python experiments/scale/equalities.py > experiments/scale/two-processes.txt

The cases are those of tests/training/two_processes.py: tiny networks, two epochs, the same batches.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.torch import load_file

SCRIPT = Path(__file__).parents[2] / "tests" / "training" / "two_processes.py"
sys.path.insert(0, str(SCRIPT.parent))

import two_processes  # noqa: E402


def main() -> None:
    """Train every case both ways and print a line for it."""
    cases = sys.argv[1:] or list(two_processes.CASES)
    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder, "one"), Path(folder, "two")
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        subprocess.run(
            [*launcher, str(SCRIPT), str(two), *cases], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        print("case\ttensors\tnumbers\tlargest change by training\tlargest difference, one process and two", flush=True)
        for case in cases:
            start = two_processes.CASES[case]()[1].double().state_dict()
            start = {name: value.clone() for name, value in start.items()}
            weights = two_processes.run(case, one).state_dict()
            others = load_file(two / f"{case}.safetensors")
            moved = max(float((weights[name] - start[name]).abs().max()) for name in weights)
            apart = max(float((weights[name] - others[name]).abs().max()) for name in weights)
            count = sum(value.numel() for value in weights.values())
            print(f"{case}\t{len(weights)}\t{count}\t{moved:.3g}\t{apart:.3g}", flush=True)


if __name__ == "__main__":
    main()
