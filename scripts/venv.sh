# Sourced by demo and test: a virtual environment with ragcli in it, made once and kept.
#
# It lies in .venv, or where RAGCLI_VENV says. What was installed is remembered as a checksum of the files that
# decide what to install, so a second run starts at once and a changed pyproject.toml installs again.

say() {
    printf '\n==> %s\n' "$*"
}

# The first of the usual names whose Python is 3.11 or later and can make virtual environments. A name alone
# proves nothing: version managers leave names on the PATH that only print an error.
find_python() {
    for name in ${RAGCLI_PYTHON:-} python3.13 python3.12 python3.11 python3 python; do
        if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    echo "ragcli needs Python 3.11 or later with its venv module, and none was found on the PATH." >&2
    echo "Install one (python.org; 'brew install python'; 'sudo apt install python3 python3-venv')," >&2
    echo "or name it: RAGCLI_PYTHON=/path/to/python3.12 $0" >&2
    return 1
}

# with_ragcli EXTRA: sets $bin to the folder of an environment that has ragcli with that extra.
with_ragcli() {
    extra=$1
    venv=${RAGCLI_VENV:-.venv}
    bin=$venv/bin
    if ! "$bin/python" -c '' >/dev/null 2>&1; then
        python=$(find_python)
        say "Making a virtual environment in $venv with $("$python" --version 2>&1)"
        "$python" -m venv "$venv"
        rm -f "$venv"/.ragcli-*
    fi
    stamp=$(cat pyproject.toml scripts/constraints.txt scripts/requirements.lock | "$bin/python" -c \
        'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
    if [ "$(cat "$venv/.ragcli-$extra" 2>/dev/null || true)" = "$stamp" ]; then
        say "ragcli[$extra] is installed in $venv already"
        return 0
    fi
    say "Installing ragcli[$extra] into $venv (the first time, this downloads its libraries; be patient)"
    if [ -t 1 ]; then quiet=; else quiet=--quiet; fi
    # $quiet is one word or none.
    # shellcheck disable=SC2086
    set -- "$bin/python" -m pip install --disable-pip-version-check $quiet
    if [ "$extra" = test ]; then
        # The lock names every library with the hashes of its archives, and pip takes no other. What builds ragcli is
        # among them, so nothing is fetched for that either. PyTorch alone comes with the second call.
        "$@" --require-hashes --no-deps -r scripts/requirements.lock
        "$@" -c scripts/constraints.txt --no-build-isolation -e ".[$extra]"
    else
        # The versions of the lock, of which this extra needs a part.
        sed -n 's/^\([a-z0-9].*==[^\]*[^ \]\) *\\$/\1/p' scripts/requirements.lock >"$venv/.ragcli-versions"
        "$@" -c scripts/constraints.txt -c "$venv/.ragcli-versions" -e ".[$extra]"
    fi
    printf '%s\n' "$stamp" >"$venv/.ragcli-$extra"
    if [ "$extra" = test ]; then
        # The extra "test" holds the extra "offline".
        printf '%s\n' "$stamp" >"$venv/.ragcli-offline"
    fi
}
