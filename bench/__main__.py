"""Command line: `python -m bench [characterize] [SUBJECT ...] [--quick | --full]` and `python -m bench evidence`."""

import sys
from collections.abc import Sequence

from bench import documents, evidence
from bench.subjects import CHARACTERIZATION, RESULTS


def main(arguments: Sequence[str] | None = None) -> int:
    first, *rest = [*(sys.argv[1:] if arguments is None else arguments), ""]
    if first == "evidence":
        return evidence.main(rest[:-1])
    collection, given = (CHARACTERIZATION, rest[:-1]) if first == "characterize" else (RESULTS, [first, *rest][:-1])
    if collection.main(given) == collection.folder:
        documents.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
