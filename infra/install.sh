#!/usr/bin/env bash
# Sets a Debian or Ubuntu machine up for Hesper: system programs, virtual environment, packages, a Chromium.
# Runs again without harm; a second run takes under a second. Called by every make target.
set -euo pipefail
cd "$(dirname "$0")/.."

PROGRAMS="Xvfb:xvfb openbox:openbox yad:yad mousepad:mousepad xdotool:xdotool git:git dbus-run-session:dbus"
# What assets/environments/desktop_apps/*.yaml drive, in the order of their files.
PROGRAMS="$PROGRAMS engrampa:engrampa galculator:galculator gnumeric:gnumeric pcmanfm:pcmanfm sylpheed:sylpheed"
PROGRAMS="$PROGRAMS viewnior:viewnior xterm:xterm zim:zim"
FONTS="adwaita-icon-theme:/usr/share/icons/Adwaita/index.theme fonts-dejavu-core:/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf fonts-noto-cjk:/usr/share/fonts/opentype/noto/NotoSansCJK-Bold.ttc"
VENV=${HESPER_VENV:-.venv}

# --- Python 3.11 or 3.12 ---
PYTHON=${PYTHON:-}
if [ -z "$PYTHON" ]; then
  for candidate in python3.11 python3.12 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
      PYTHON=$candidate; break
    fi
  done
fi
if [ -z "$PYTHON" ] && [ ! -x "$VENV/bin/python" ]; then
  echo "error: no Python 3.11 or 3.12 with venv. Debian and Ubuntu: apt-get install python3 python3-venv" >&2
  exit 3
fi

# --- system programs and fonts ---
missing=""
for pair in $PROGRAMS; do command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"; done
for pair in $FONTS; do [ -e "${pair##*:}" ] || missing="$missing ${pair%%:*}"; done
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing system packages:$missing"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
  else
    echo "error: missing system packages:$missing" >&2
    echo "       as root: apt-get install$missing" >&2
    exit 3
  fi
fi

# --- Python packages, from the lock ---
stamp="$VENV/.installed"
wanted=$(cat requirements.lock pyproject.toml infra/install.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  [ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
  # Modules are compiled when they are first imported: compiling all of them takes 50 s, and most never are.
  # TORCH_ARGS chooses a build, for example --index-url https://download.pytorch.org/whl/cpu
  "$VENV/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check ${TORCH_ARGS:-} torch==2.13.0
  # The lock is complete, so no resolver: it holds antlr4 4.13.2, which Dagster needs and DVC's Hydra declares otherwise.
  # Two halves of it side by side, since unpacking keeps one processor busy.
  PIP="$VENV/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps"
  $PIP -r <(sed -n '1~2p' requirements.lock) & half=$!
  $PIP -r <(sed -n '2~2p' requirements.lock)
  wait "$half"
  $PIP --no-build-isolation -e .  # with the lock's setuptools, which need not be fetched once more
  echo "$wanted" > "$stamp"
fi

# --- Chromium: one that is there, Playwright's, or the distribution's ---
if ! "$VENV/bin/python" -c 'from assets.environments.chromium import find_chromium; find_chromium()' 2>/dev/null; then
  echo "installing Chromium"
  if [ "$(id -u)" = 0 ]; then
    "$VENV/bin/python" -m playwright install --with-deps chromium >/dev/null 2>&1 \
      || { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
  else
    "$VENV/bin/python" -m playwright install chromium >/dev/null 2>&1 \
      || { echo "error: no Chromium. As root: apt-get install chromium" >&2; exit 3; }
  fi
fi
