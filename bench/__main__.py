"""Command line: `python -m bench [characterize] [SUBJECT ...] [--quick | --full]` and `python -m bench evidence`."""

import sys
from collections.abc import Sequence

from bench import documents, evidence, processors
from bench.subjects import CHARACTERIZATION, RESULTS


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["evidence"]:
        return evidence.main(given[1:])
    collection = CHARACTERIZATION if given[:1] == ["characterize"] else RESULTS
    if collection.main(given[collection is CHARACTERIZATION :]) == collection.folder:
        processors.store()
        documents.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
