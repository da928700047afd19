#!/usr/bin/env bash
# tools/install.sh EXTRA: make .venv with `ciga[EXTRA]` (editable) in it, then mark it .venv/.installed-EXTRA.
# PYTHON=/path/to/python chooses the interpreter of a new .venv; NO_UV=1 installs with pip even where uv can be had.
set -euo pipefail
cd "$(dirname "$0")/.."
extra=$1
venv=.venv
stamp=$venv/.installed-$extra
lock=$venv.lock

modern() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    if modern "$candidate"; then echo "$candidate"; return; fi
  done
  echo "ciga needs Python 3.11 or newer; none of these is: ${PYTHON:-python3.13, python3.12, python3.11, python3, python}." >&2
  echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
  return 1
}

make_venv() {
  local python
  python=$(find_python)
  echo "==> creating $venv with $("$python" --version)"
  "$python" -m venv --clear $venv && return
  # Debian's python comes without ensurepip unless python3-venv is installed; uv can do without it.
  if command -v uv >/dev/null; then uv venv --quiet --clear --seed --python "$python" $venv && return; fi
  echo "Could not create $venv (on Debian and Ubuntu: apt-get install python3-venv)." >&2
  return 1
}

find_uv() {
  [ -z "${NO_UV:-}" ] || return 1
  command -v uv && return
  [ -x $venv/bin/uv ] || $venv/bin/python -m pip install --quiet --disable-pip-version-check uv >/dev/null 2>&1 || return 1
  echo $venv/bin/uv
}

install() {
  local uv links
  if uv=$(find_uv); then
    # uv does not read pip's settings: hand it the local wheels that pip would see (comma-separated).
    links=${PIP_FIND_LINKS:-$($venv/bin/python -m pip config get global.find-links 2>/dev/null || true)}
    export UV_FIND_LINKS=${UV_FIND_LINKS:-$(echo $links | tr ' ' ',')}
    echo "==> installing ciga[$extra] with uv"
    "$uv" pip install --python $venv/bin/python --editable ".[$extra]" && return
    echo "==> uv could not; trying pip"
  fi
  echo "==> installing ciga[$extra] with pip"
  $venv/bin/python -m pip install --disable-pip-version-check --editable ".[$extra]"
}

# One install at a time. The lock file has content only while an install runs, so content found here means
# that the last one did not finish: what it left may look installed and is not, and goes.
exec 9>>$lock
if command -v flock >/dev/null; then flock 9; fi
if [ -e "$stamp" ] && [ "$stamp" -nt pyproject.toml ]; then exit 0; fi   # another make did it meanwhile
if [ -s $lock ]; then
  echo "==> the last install did not finish: starting over"
  rm -rf $venv
fi
echo "installing $extra" >$lock
modern $venv/bin/python && $venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
install
touch "$stamp"
if [ "$extra" = dev ]; then touch $venv/.installed-report $venv/.installed-docs; fi   # dev contains them
: >$lock
