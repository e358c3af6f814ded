"""`python -m characterization [SUBJECT ...] [results] [--quick | --full] [--output FOLDER]`, see subjects.py."""

from collections.abc import Sequence

from benchmarks import documents
from characterization.subjects import CHARACTERIZATION


def main(arguments: Sequence[str] | None = None) -> None:
    if CHARACTERIZATION.main(arguments) == CHARACTERIZATION.folder:
        documents.write()


if __name__ == "__main__":
    main()
