#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Make .venv from the locked requirements, and link this clone into it as llmfleet.sglang.
set -eu
cd "$(dirname "$0")/../.."

if ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null
fi
python3 - <<'PYTHON'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"setup: python3 is {sys.version.split()[0]}; ansible-core 2.19 needs 3.11 or newer on the controller")
PYTHON

# Built aside and renamed, so that an interrupted run leaves no half environment behind.
rm -rf .venv.part
python3 -m venv .venv.part
.venv.part/bin/pip install --quiet --require-hashes --requirement requirements/dev.txt
mkdir -p .venv.part/collections/ansible_collections/llmfleet
ln -s ../../../.. .venv.part/collections/ansible_collections/llmfleet/sglang
rm -rf .venv
mv .venv.part .venv
# The programs of an environment name its path in their first line.
grep -rlI "$PWD/.venv.part" .venv/bin | xargs -r sed -i "s|$PWD/.venv.part|$PWD/.venv|g"
touch .venv/.ready
