#!/usr/bin/env bash
# Steps of the installation, each safe to repeat. The Makefile calls them:
#   setup.sh packages EXTRAS    virtual environment in .venv, this project and its EXTRAS installed in it
#   setup.sh kernels MARK       compile and cache the kernels, then touch MARK
#   setup.sh demo MARK          what the demo needs, and nothing else; touch MARK
#   setup.sh java MARK          find Java 17 or newer, or install it; touch MARK if there is one
#   setup.sh browser MARK       find Chromium or Chrome for the tests of the page, or install it; touch MARK if there is one
#   setup.sh programs MARK      find strace and rsync, which one test each needs, or install them; touch MARK if both are there
#   setup.sh prometheus MARK    unpack Debian's Prometheus and promtool, for tests, into the folder prometheus beside MARK; touch MARK
#   setup.sh object-stores MARK install object stores that tests start into the folder of MARK; touch MARK if all are there
#   setup.sh kafka MARK         copy a Kafka broker and Spark's connector, for tests, into the folder kafka beside MARK; touch MARK
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
log=$venv/setup.log

say() { printf '==> %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Run a command as root; fail quietly if that needs a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# Install a Debian package; show the end of its output only if it fails.
debian_install() {
    command -v apt-get >/dev/null || return 1
    as_root true 2>/dev/null || return 1
    say "Installing the Debian package $1"
    local output
    output="$(mktemp)"
    if as_root apt-get update >"$output" 2>&1 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1" >>"$output" 2>&1; then
        rm -f "$output"
        return 0
    fi
    tail -n 5 "$output" >&2
    rm -f "$output"
    return 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "There is no Python 3.11 or newer, which Quantide needs. Install it (Debian: apt-get install python3)" \
        "or name it: make PYTHON=/path/to/python3.11 setup"
}

# Debian packages the venv module separately.
ensure_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    local package
    package="python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    debian_install "$package" && "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    fail "$1 cannot create virtual environments. Run: sudo apt-get install $package, then run make again"
}

make_venv() {
    if [ -x $venv/bin/python ] && new_enough $venv/bin/python && $venv/bin/python -m pip --version >/dev/null 2>&1; then
        return
    fi
    local python
    python="$(find_python)"
    ensure_venv_module "$python"
    say "Creating a virtual environment in $venv with $("$python" --version)"
    "$python" -m venv --clear $venv
}

# Install this project as pip's ARGUMENT names it; show one line per package, the log has all of pip's output.
pip_install() {
    if ! $venv/bin/python -m pip install --disable-pip-version-check --progress-bar off -e "$1" 2>&1 | tee "$log" |
        { grep --line-buffered -E '^ *(Downloading [^ ]+\.(whl|gz)|Building |Installing collected)' || true; } |
        sed -u -E 's/^ *//; s#(Downloading )[^ ]*/#\1#; s/^(Installing collected packages).*/\1/; s/^/    /'; then
        tail -n 20 "$log" >&2
        fail "pip could not install the packages. Its output is in $log. Check the network, then run make again"
    fi
}

install_packages() {
    make_venv
    say "Installing Quantide and the packages of [$1]; the first time this takes a few minutes (log: $log)"
    pip_install ".[$1]"
}

# numba's cache of a kernel does not notice changes of kernels it calls in other files: delete the cache if any
# file is newer than MARK. More arguments: the types to compile for.
warm_kernels() {
    local mark=$1
    shift
    say "Compiling the kernels; the machine code is cached for later starts"
    if [ ! -e "$mark" ] || [ -n "$(find src/quantide/kernels -name '*.py' -newer "$mark")" ]; then
        find src/quantide/kernels -name '*.nb[ci]' -delete
    fi
    $venv/bin/python -m quantide.kernels "$@"
    touch "$mark"
}

# The kernels of the demo are compiled while its packages are downloaded: they need only those of the core.
prepare_demo() {
    local output compiler
    make_venv
    say "Installing what the demo needs; the first time this takes two to three minutes, most of it downloads (log: $log)"
    pip_install .
    output="$(mktemp)"
    say "Compiling the kernels meanwhile, which takes a minute or two; the machine code is cached for later starts"
    warm_kernels "$1" float64 >"$output" 2>&1 &
    compiler=$!
    pip_install ".[demo]"
    if ! wait $compiler; then
        cat "$output" >&2
        rm -f "$output"
        fail "The kernels could not be compiled; see above"
    fi
    grep '^Kernels ready' "$output"
    rm -f "$output"
    touch "$1"
}

java_major() {
    "$1/bin/java" -version 2>&1 | sed -n -E '1s/.*version "([0-9]+).*/\1/p'
}

java_candidates() {
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME"; fi
    if command -v java >/dev/null; then dirname "$(dirname "$(readlink -f "$(command -v java)")")"; fi
    ls -d /usr/lib/jvm/*/ /opt/java/*/ 2>/dev/null || true
}

# Print the home of the first Java that is new enough for Spark.
find_java() {
    local home major
    while IFS= read -r home; do
        home="${home%/}"
        [ -x "$home/bin/java" ] || continue
        major="$(java_major "$home")"
        if [ "${major:-0}" -ge 17 ]; then
            echo "$home"
            return
        fi
    done < <(java_candidates)
    return 1
}

ensure_java() {
    local home
    make_venv
    if home="$(find_java)" || { debian_install openjdk-17-jre-headless && home="$(find_java)"; }; then
        say "Java $(java_major "$home") found"
        echo "$home" >$venv/java-home
        touch "$1"
        return
    fi
    say "Warning: there is no Java 17 or newer, and it could not be installed. Only Spark needs it;" \
        "everything else works. To install it, run: sudo apt-get install openjdk-17-jre-headless" \
        "(or set JAVA_HOME to an installed one)"
}

# Print the browser that the tests start; tests/browser/chrome.py searches in the same order.
find_browser() {
    local candidate
    for candidate in ${QUANTIDE_BROWSER:+"$QUANTIDE_BROWSER"} chromium chromium-browser google-chrome; do
        if command -v "$candidate" >/dev/null && "$candidate" --version >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
        if [ -n "${QUANTIDE_BROWSER:-}" ]; then break; fi
    done
    return 1
}

ensure_browser() {
    local program
    if program="$(find_browser)"; then
        :
    elif [ -n "${QUANTIDE_BROWSER:-}" ]; then
        fail "QUANTIDE_BROWSER is $QUANTIDE_BROWSER, which does not start. Set it to the program of Chromium or Chrome," \
            "or unset it"
    elif ! { debian_install chromium && program="$(find_browser)"; }; then
        say "Warning: there is no Chromium or Chrome, and it could not be installed. Only the tests of the page need" \
            "it, and they fail without it. To install it, run: sudo apt-get install chromium" \
            "(or set QUANTIDE_BROWSER to an installed one)"
        return
    fi
    say "Browser found: $("$program" --version 2>/dev/null)"
    touch "$1"
}

ensure_programs() {
    local program missing=0
    for program in strace rsync; do
        if command -v $program >/dev/null || debian_install $program; then
            say "$program found"
        else
            missing=1
            say "Warning: there is no $program, and it could not be installed. Only one test needs it, and is skipped" \
                "without it. To install it, run: sudo apt-get install $program"
        fi
    done
    if [ $missing = 0 ]; then touch "$1"; fi
}

# tests/prometheus/programs.py finds them there. The package is unpacked, not installed, which would start its service.
ensure_prometheus() {
    local tools output
    mkdir -p "$(dirname "$1")"
    tools="$(cd "$(dirname "$1")" && pwd)/prometheus"
    if [ -x "$tools/usr/bin/promtool" ] || { command -v prometheus && command -v promtool; } >/dev/null; then
        say "Prometheus found"
        touch "$1"
        return
    fi
    output="$(mktemp -d)"
    if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null &&
        { (cd "$output" && apt-get download prometheus) || { as_root apt-get update && (cd "$output" && apt-get download prometheus); }; } \
            >"$output/log" 2>&1 && dpkg-deb -x "$output"/prometheus_*.deb "$tools" 2>>"$output/log"; then
        say "Prometheus unpacked into $tools"
        touch "$1"
    else
        tail -n 5 "$output/log" 2>/dev/null >&2 || true
        say "Warning: there is no Prometheus, and Debian's package could not be downloaded. Only tests of the Prometheus API" \
            "need it, and are skipped without it. To install it, run: sudo apt-get install prometheus"
    fi
    rm -rf "$output"
}

# Install an object store with a program that this machine may not have: NAME PROGRAM COMMAND...
install_object_store() {
    local name=$1 program=$2 output
    shift 2
    if ! command -v "$program" >/dev/null; then
        say "Warning: there is no $program, so $name is not installed. Only its tests need it, and are skipped without it"
        return 1
    fi
    say "Installing $name with $program; the first time this takes a minute or two"
    output="$(mktemp)"
    if "$@" >"$output" 2>&1; then
        rm -f "$output"
        return 0
    fi
    tail -n 5 "$output" >&2
    rm -f "$output"
    say "Warning: $program could not install $name. Only its tests need it, and are skipped without it"
    return 1
}

# tests/object_servers/servers.py finds them there. Both are installed at the same time: one needs the network most,
# the other the processor.
install_object_stores() {
    local tools azurite=0 versitygw=0 job
    mkdir -p "$(dirname "$1")"
    tools="$(cd "$(dirname "$1")" && pwd)"
    mkdir -p "$tools/azurite"
    install_object_store Azurite npm npm install --prefix "$tools/azurite" --ignore-scripts --no-audit --no-fund \
        --save-exact azurite@3.37.0 &
    job=$!
    install_object_store versitygw go env GOBIN="$tools" CGO_ENABLED=0 \
        go install -ldflags='-s -w' github.com/versity/versitygw/cmd/versitygw@v1.8.0 || versitygw=$?
    wait $job || azurite=$?
    if [ "$azurite$versitygw" = 00 ]; then touch "$1"; fi
}

# tests/kafka/broker.py finds them there. tests/kafka/pom.xml has the versions.
install_kafka() {
    local tools profile output
    mkdir -p "$(dirname "$1")"
    tools="$(cd "$(dirname "$1")" && pwd)/kafka"
    if ! command -v mvn >/dev/null; then
        say "Warning: there is no mvn (Maven), so Kafka is not installed. Only its tests need it, and are skipped without it." \
            "To install it, run: sudo apt-get install maven"
        return
    fi
    say "Installing a Kafka broker and Spark's connector with Maven; the first time this takes a minute"
    output="$(mktemp)"
    for profile in broker connector; do
        rm -rf "${tools:?}/$profile"
        if ! mvn -B -f tests/kafka/pom.xml -P "$profile" dependency:copy-dependencies -DincludeScope=runtime \
            -DoutputDirectory="$tools/$profile" >"$output" 2>&1; then
            rm -rf "${tools:?}/$profile"
            grep -m 3 ERROR "$output" >&2 || tail -n 5 "$output" >&2
            rm -f "$output"
            say "Warning: Maven could not install the $profile of Kafka. Only its tests need it, and are skipped without it"
            return
        fi
    done
    rm -f "$output"
    touch "$1"
}

case "${1:-}" in
packages) install_packages "${2:?which extras? For example: setup.sh packages all,dev}" ;;
kernels) warm_kernels "${2:?which file marks that the kernels are compiled?}" ;;
demo) prepare_demo "${2:?which file marks that the demo can start?}" ;;
java) ensure_java "${2:?which file marks that Java is there?}" ;;
browser) ensure_browser "${2:?which file marks that the browser is there?}" ;;
programs) ensure_programs "${2:?which file marks that strace and rsync are there?}" ;;
prometheus) ensure_prometheus "${2:?which file marks that Prometheus is there?}" ;;
object-stores) install_object_stores "${2:?which file marks that the object stores are there?}" ;;
kafka) install_kafka "${2:?which file marks that Kafka is there?}" ;;
*) fail "unknown step '${1:-}'. Run make setup, which runs all steps in order" ;;
esac
