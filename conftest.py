"""Plugins of every test, those in src, docs and README.md included."""

pytest_plugins = [
    "tests.time_limit",
    "tests.skip_summary",
    "tests.java_options",
    "tests.random_order",
    "tests.distribution",
    "tests.object_servers.fixtures",
]
