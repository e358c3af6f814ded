# shellcheck shell=bash
# Source this in the root of the project to use its virtual environment, also for Spark's workers, and the
# Java that scripts/setup.sh found.
export PATH="$PWD/.venv/bin:$PATH"
export PYSPARK_PYTHON="${PYSPARK_PYTHON:-$PWD/.venv/bin/python}"
if [ -s .venv/java-home ]; then
    JAVA_HOME="$(cat .venv/java-home)"
    export JAVA_HOME
fi
