#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Remove every host of the lab, its network and its server. Caches stay.
set -eu
cd "$(dirname "$0")/../.."
python="$(command -v python3)"
names="$("$python" tests/lab/hosts.py list | "$python" -c '
import json, sys
print(*[host["name"] for host in json.load(sys.stdin)["hosts"]])')"
# shellcheck disable=SC2086 # each name is a word of its own
[ -z "$names" ] || "$python" tests/lab/hosts.py down $names
[ ! -f tests/lab/server.py ] || "$python" tests/lab/server.py --stop
"$python" tests/lab/hosts.py network-down
