#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Run a command, or a shell, on a host of the lab: on_host.sh NAME [COMMAND ...]
set -eu
state=/var/lib/llmfleet-lab
name="$1"
shift
address="$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' \
    "$state/hosts/$name/host.json" 2>/dev/null)" || {
    echo "lab: there is no host $name; 'make demo' makes gpu1" >&2
    exit 1
}
# ssh joins its words with spaces and hands them to a shell: each is quoted for it.
quoted=""
for word in "$@"; do
    quoted="$quoted $(python -c 'import shlex, sys; print(shlex.quote(sys.argv[1]))' "$word")"
done
exec ssh -q -i "$state/ssh/id_ed25519" -o "UserKnownHostsFile=$state/ssh/known_hosts" \
    -o StrictHostKeyChecking=yes "deploy@$address" ${quoted:+"$quoted"}
