#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Install the Debian packages that the lab and the tests need, where they are missing. Says "changed" when it did.
set -eu
wanted="apt-utils ca-certificates createrepo-c debian-archive-keyring dpkg-dev git gnupg iproute2 iptables mmdebstrap
    openssh-client procps rpm shellcheck systemd-container systemd-journal-remote"
missing=""
for package in $wanted; do
    [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "lab: these Debian packages are missing:$missing; run this as root, or install them" >&2
    exit 1
fi
apt-get update -qq
# shellcheck disable=SC2086 # each name is a word of its own
DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing >/dev/null
echo "changed: installed$missing"
