#!/bin/sh
# Rendered on each web server, with its own pillar, and then run there.
set -eu
folder="{{ salt['config.get']('root_dir') }}/srv/www"
mkdir -p "$folder"
cat > "$folder/index.html" <<'PAGE'
<h1>{{ pillar['page']['title'] }}</h1>
<p>Version {{ pillar['page']['version'] }}, served by {{ pillar['page']['host'] }}.</p>
PAGE
cat "$folder/index.html"
