"""`python -m benchmarks [PART ...] [results] [--quick | --full] [--output FOLDER]`, see parts.py."""

from collections.abc import Sequence

from benchmarks import documents
from benchmarks.parts import BENCHMARKS


def main(arguments: Sequence[str] | None = None) -> None:
    if BENCHMARKS.main(arguments) == BENCHMARKS.folder:
        documents.write()


if __name__ == "__main__":
    main()
