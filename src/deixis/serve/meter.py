"""Request counters in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from deixis.serve.engine import Engine

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class Meter:
    """Number, status and duration of requests."""

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, int]] = Counter()  # route and status
        self.within: Counter[tuple[str, int]] = Counter()  # route and bucket
        self.seconds: Counter[str] = Counter()

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one finished request."""
        self.ended[route, status] += 1
        self.within[route, bisect_left(BUCKETS, seconds)] += 1
        self.seconds[route] += seconds  # type: ignore[assignment]  # a counter adds up any number

    def text(self, engine: Engine) -> str:
        """Return all counters, with the current state of the engine."""
        lines = _head("deixis_requests_total", "counter", "Requests by route and status.")
        lines += [
            f'deixis_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(self.ended.items())
        ]
        lines += _head("deixis_request_seconds", "histogram", "Time from a request to the end of its answer.")
        for route in sorted(self.seconds):
            below = 0
            for bucket, edge in enumerate((*BUCKETS, "+Inf")):
                below += self.within[route, bucket]
                lines.append(f'deixis_request_seconds_bucket{{route="{route}",le="{edge}"}} {below}')
            lines.append(f'deixis_request_seconds_sum{{route="{route}"}} {self.seconds[route]:.6f}')
            lines.append(f'deixis_request_seconds_count{{route="{route}"}} {below}')
        for name, kind, text, value in (
            ("deixis_requests_under_way", "gauge", "Accepted requests without an answer.", engine.under_way),
            ("deixis_requests_most", "gauge", "Largest number of requests in progress.", engine.limits.waiting),
            ("deixis_batches_total", "counter", "Batches that the engine has processed.", engine.batches),
            ("deixis_batched_total", "counter", "Requests in those batches.", engine.answered),
        ):
            lines += [*_head(name, kind, text), f"{name} {value}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
