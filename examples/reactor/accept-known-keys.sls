{#- Accepts the keys of machines that are expected, by their ids:

      reactor:
        - 'salt/auth': [/srv/reactor/accept-known-keys.sls]

    known-minions.yaml beside this file lists the ids. Whoever presents a key first under a listed id is let in, so list an id
    when its machine is installed, on a network where nobody else can be first. A token is safer (docs/enrolment.md). #}
{%- import_yaml './known-minions.yaml' as known %}
{%- if data['act'] == 'pend' and data['id'] in known %}
accept_known_key:
  wheel.key.accept:
    - args:
      - match: {{ data['id'] }}
{%- endif %}
