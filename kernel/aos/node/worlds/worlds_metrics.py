"""Figures of a node with many worlds, in the text format of Prometheus (spec/worlds.md, WD-30).
Those of a world are at its own address, ``/w/NAME/metrics``."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from aos.node.worlds.hosted_worlds import HostedWorlds


def worlds_metrics(worlds: HostedWorlds) -> bytes:
    """Return how many worlds are in each phase."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Phases(worlds))
    return generate_latest(registry)


class _Phases(Collector):
    def __init__(self, worlds: HostedWorlds) -> None:
        self._worlds = worlds

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("aos_worlds", "Worlds of this node by phase.", labels=["phase"])
        for phase, count in self._worlds.phases().items():
            family.add_metric([phase.value], count)
        yield family
