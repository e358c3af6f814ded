"""How much of each case is measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """`n` values where a table is asked; `levels`: the most levels of an attack on t-digest; `runs` of what is not the
    same each time; `sketches` of KLL; `partitions` and `part_rows` of what is merged. 0 `spark_partitions`: no Spark.
    """

    n: int = 2_000_000
    levels: int = 400
    runs: int = 10
    threads: tuple[int, ...] = (1, 2, 4)
    sketches: int = 1_000
    partitions: tuple[int, ...] = (2, 10, 100, 400)
    part_rows: int = 2_000
    accuracies: tuple[int, ...] = (100, 1_000, 10_000)
    spark_partitions: int = 100
    cores: int = 2


HOUR = Settings(n=1_000_000, runs=5, sketches=300, partitions=(2, 10, 100), spark_partitions=20)
QUICK = Settings(
    n=10_000,
    levels=20,
    runs=2,
    threads=(1, 2),
    sketches=10,
    partitions=(2, 10),
    part_rows=500,
    accuracies=(100,),
    spark_partitions=0,
)
