#!/bin/sh
# Adds a web server to the list of a load balancer, once. Several web servers may come at once, so it takes a lock.
set -eu
list="{{ salt['config.get']('root_dir') }}/srv/backends"
mkdir -p "${list%/*}"
exec 9>> "$list"
flock 9
grep -qx "$1" "$list" || echo "$1" >&9
