#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Deploy the real SGLang on a lab host with site.yml, and show the verdict.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "$(id -u)" -ne 0 ]; then
    echo "demo: the lab boots a machine with systemd-nspawn; run make demo as root" >&2
    exit 1
fi
mkdir -p .cache
report="$PWD/.cache/demo-report.txt"
rm -f "$report"
ansible-playbook -i inventories/lab molecule/shared/create.yml
ansible-playbook -i inventories/lab site.yml -e "site_report_file=$report"
cat <<TEXT

LAB: a made host, emulated GPUs, a tiny model with random weights. The engine, the journal and the figures are real.
$(cat "$report")
Took $SECONDS s. The host runs on:
  make chat PROMPT="Say hello."   ask the server
  make shell                      look at it: systemctl status sglang-kimi; journalctl -u sglang-kimi
  make demo                       deploy again: 0 changed, the same verdict
  make clean                      remove it
TEXT
