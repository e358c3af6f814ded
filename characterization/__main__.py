"""`python -m characterization [SUBJECT ...] [results] [--quick | --full] [--output FOLDER]`, see subjects.py."""

from characterization.subjects import CHARACTERIZATION

main = CHARACTERIZATION.main

if __name__ == "__main__":
    main()
