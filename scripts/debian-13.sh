#!/bin/sh
# Runs a command in this folder with Python 3.13, in a root of Debian 13 that is made when it is not
# there. For Linux machines with an older Python; needs root and debootstrap.
set -eu
cd "$(dirname "$0")/.."
root=${DEBIAN_ROOT:-/var/tmp/debian-13}
if [ ! -e "$root/.made" ]; then
    debootstrap --variant=minbase \
        --include=python3,python3-venv,ca-certificates,git,openssl,procps,redis-server trixie "$root"
    mkdir -p "$root/work"
    touch "$root/.made"
fi
cp -L /etc/resolv.conf "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
# The mounts are those of this process alone and end with it.
exec unshare --mount sh -eu -c '
    mount --bind . "$0/work"
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    exec chroot "$0" sh -eu -c "cd /work && exec \"\$@\"" sh "$@"' "$root" "$@"
