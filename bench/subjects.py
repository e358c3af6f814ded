"""Subjects in the order in which they are measured and listed, each with its module."""

from importlib import import_module

from bench.collection import DOCS, Collection, Subject

_RESULTS = """stream=sketch_speed fast=fast_paper keys=group_by queries=query_load history=history_load
windows=window_speed live=live_reader ingest=ingestion serve=http_server dashboard=browser_page spark=spark_speed
peers=peer_comparison partitions=spark_speed.PARTITIONS breaks=counterexamples
rolling=rolling_speed tails=tail_accuracy objects=object_store push=push_load kafka=kafka_ingestion
histograms=histogram_exchange violations=bound_violations
grafana=prometheus_queries soak=soak_figures"""
_GROWTH = "spark=spark_growth queries=query_growth history=history_growth windows=window_accuracy scale=cost_pages"


def _subjects(text: str) -> dict[str, Subject]:
    pairs = [f"{pair}.SUBJECT".replace("=", ".").split(".") for pair in text.split()]
    return {name: getattr(import_module(f"bench.{module}"), subject) for name, module, subject, *_ in pairs}


RESULTS = Collection("benchmarks", "", DOCS / "results", _subjects(_RESULTS))
CHARACTERIZATION = Collection("characterization", "characterize", DOCS / "characterization", _subjects(_GROWTH))
