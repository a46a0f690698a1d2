{#- Tells the load balancers that a web server has started:

      reactor:
        - 'salt/minion/web*/start': [/srv/reactor/tell-balancer.sls]

    The balancers are the minions to which minions.d assigns the role `balancer`. A minion can fire `salt/minion/<id>/x/start` at any
    time, which that tag matches too; the whole tag is the master's word. #}
{% if tag == 'salt/minion/' ~ data['id'] ~ '/start' %}
tell_balancers:
  local.cmd.run:
    - tgt: roles:balancer
    - tgt_type: assigned
    - args:
      - /usr/local/sbin/add-backend {{ data['id'] }}
{% endif %}
