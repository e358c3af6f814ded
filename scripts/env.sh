# shellcheck shell=bash
# Sourced from the root of the project: use its virtual environment, for Spark's workers too, and the Java
# that set-up found.
export PATH="$PWD/.venv/bin:$PATH"
export PYSPARK_PYTHON="${PYSPARK_PYTHON:-$PWD/.venv/bin/python}"
if [ -s .venv/java-home ]; then
    JAVA_HOME="$(cat .venv/java-home)"
    export JAVA_HOME
fi
