#!/bin/sh
# On a bare Debian: get make and Python, then hand over.  sh tasks/local/bootstrap.sh make run
set -eu
cd "$(dirname "$0")/../.."

missing=""
command -v make >/dev/null 2>&1 || missing="$missing make"
command -v python3 >/dev/null 2>&1 || missing="$missing python3"

if [ -n "$missing" ]; then
    command -v apt-get >/dev/null 2>&1 || {
        echo "This needs$missing, and there is no apt-get here to install it with. Install it and try again." >&2
        exit 1
    }
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || {
            echo "This needs$missing. You are not root and there is no sudo: as root, run" >&2
            echo "    apt-get update && apt-get install -y --no-install-recommends$missing" >&2
            exit 1
        }
        as_root="sudo"
    fi
    echo "installing:$missing"
    log=$(mktemp)
    { $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
      $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        rm -f "$log"
        echo "Installing$missing failed (see above). Is there a network, and are Debian's package sources reachable?" >&2
        exit 1
    }
    rm -f "$log"
fi

[ $# -gt 0 ] || set -- make help
exec "$@"
