{# A web server has a new page. The load balancers may send it visitors from now on. #}
tell_the_balancers:
  local.cmd.script:
    - tgt: roles:balancer
    - tgt_type: assigned
    - args:
      - salt://balancer/add.sh
      - {{ data['id'] }}
      - template: jinja
