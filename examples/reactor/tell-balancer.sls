{#- Tells the load balancers that a web server has started:

      reactor:
        - 'salt/minion/web*/start': [/srv/reactor/tell-balancer.sls]

    The balancers are the minions to which minions.d assigns the role `balancer`. #}
tell_balancers:
  local.cmd.run:
    - tgt: roles:balancer
    - tgt_type: assigned
    - args:
      - /usr/local/sbin/add-backend {{ data['id'] }}
