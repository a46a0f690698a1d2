#!/bin/sh
# Prints the web servers that a load balancer knows.
sort "{{ salt['config.get']('root_dir') }}/srv/backends"
