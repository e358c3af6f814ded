#!/usr/bin/env bash
# The steps of set-up, each safe to repeat. Called by the Makefile:
#   setup.sh packages EXTRAS    virtual environment in .venv, this project and its EXTRAS installed in it
#   setup.sh kernels MARK       compile the kernels, keep the machine code, then touch MARK
#   setup.sh java MARK          find Java 17 or newer, or install it; touch MARK when there is one
#   setup.sh browser MARK       find Chromium or Chrome for the tests of the page, or install it; touch MARK when there is one
#   setup.sh strace MARK        find strace for the test of the order of system calls, or install it; touch MARK when there is one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
log=$venv/setup.log

say() { printf '==> %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Run a command as root, or fail quietly where that needs a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

# Install a Debian package; its output goes to a file that is shown only when something went wrong.
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
    fail "Quantide needs Python 3.11 or newer and found none. Install it (Debian: apt-get install python3)" \
        "or name it: make PYTHON=/path/to/python3.11 setup"
}

# Debian parts the venv module from Python.
ensure_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    local package
    package="python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    debian_install "$package" && "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    fail "$1 cannot create virtual environments. Run: sudo apt-get install $package, then the same make command again"
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

# pip says a lot: show a line for each package as it comes, keep the rest in the log.
install_packages() {
    make_venv
    say "Installing Quantide and the packages of [$1]; the first time this takes a few minutes (log: $log)"
    if ! $venv/bin/python -m pip install --disable-pip-version-check --progress-bar off -e ".[$1]" 2>&1 | tee "$log" |
        { grep --line-buffered -E '^ *(Downloading [^ ]+\.(whl|gz)|Building |Installing collected)' || true; } |
        sed -u -E 's/^ *//; s#(Downloading )[^ ]*/#\1#; s/^(Installing collected packages).*/\1/; s/^/    /'; then
        tail -n 20 "$log" >&2
        fail "pip could not install the packages. The whole output is in $log. Check the network, then run make again"
    fi
}

# numba looks at the file of a kernel only, not at the kernels it calls in other files: start afresh when any
# of them changed since MARK.
warm_kernels() {
    say "Compiling the kernels; the machine code is kept, later starts take a moment"
    if [ ! -e "$1" ] || [ -n "$(find src/quantide/kernels -name '*.py' -newer "$1")" ]; then
        find src/quantide/kernels -name '*.nb[ci]' -delete
    fi
    $venv/bin/python -m quantide.kernels
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

# Print the home of the first Java that Spark can use.
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
    if home="$(find_java)" || { debian_install openjdk-17-jre-headless && home="$(find_java)"; }; then
        say "Java $(java_major "$home") found"
        echo "$home" >$venv/java-home
        touch "$1"
        return
    fi
    say "Warning: no Java 17 or newer, and it could not be installed from here. Only the Spark parts need it;" \
        "everything else works. To have it, run: sudo apt-get install openjdk-17-jre-headless" \
        "(or set JAVA_HOME to a Java you have)"
}

# Print the browser that the tests will start: tests/browser/chrome.py looks in the same places.
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
        fail "QUANTIDE_BROWSER is $QUANTIDE_BROWSER, which does not start. Name the program of Chromium or Chrome," \
            "or unset it"
    elif ! { debian_install chromium && program="$(find_browser)"; }; then
        say "Warning: no Chromium or Chrome, and it could not be installed from here. Only the tests of the page need" \
            "it, and they fail without. To have it, run: sudo apt-get install chromium" \
            "(or set QUANTIDE_BROWSER to one you have)"
        return
    fi
    say "Browser found: $("$program" --version 2>/dev/null)"
    touch "$1"
}

ensure_strace() {
    if command -v strace >/dev/null || debian_install strace; then
        say "strace found"
        touch "$1"
        return
    fi
    say "Warning: no strace, and it could not be installed from here. Only the test of the order of system calls needs it," \
        "and is skipped without. To have it, run: sudo apt-get install strace"
}

case "${1:-}" in
packages) install_packages "${2:?which extras? For example: setup.sh packages all,dev}" ;;
kernels) warm_kernels "${2:?which file marks that the kernels are compiled?}" ;;
java) ensure_java "${2:?which file marks that Java is there?}" ;;
browser) ensure_browser "${2:?which file marks that the browser is there?}" ;;
strace) ensure_strace "${2:?which file marks that strace is there?}" ;;
*) fail "unknown step '${1:-}'. Run make setup, which calls the steps in their order" ;;
esac
