"""Subjects in the order in which they are measured and listed, each with its module."""

from importlib import import_module

from bench import spark_speed
from bench.collection import DOCS, Collection, Subject

_RESULTS = (
    "stream=sketch_speed fast=fast_paper keys=group_by queries=query_load history=history_load windows=window_speed "
)
_RESULTS += "live=live_reader ingest=ingestion serve=http_server dashboard=browser_page spark=spark_speed "
_RESULTS += "peers=peer_comparison partitions=spark_speed breaks=counterexamples"
_GROWTH = "spark=spark_growth queries=query_growth history=history_growth windows=window_accuracy scale=cost_model"


def _subjects(text: str) -> dict[str, Subject]:
    pairs = [pair.split("=") for pair in text.split()]
    return {name: import_module(f"bench.{module}").SUBJECT for name, module in pairs}


RESULTS = Collection("benchmarks", "", DOCS / "results", _subjects(_RESULTS) | {"partitions": spark_speed.PARTITIONS})
CHARACTERIZATION = Collection("characterization", "characterize", DOCS / "characterization", _subjects(_GROWTH))
