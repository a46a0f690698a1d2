page:
  title: Tea and cake
  version: 7
  host: {{ grains.id }}.example.org

# What the web servers leave with the master for the load balancers, and for nobody else.
mine_functions:
  host:
    - mine_function: pillar.get
    - page:host
    - unmask: True
    - allow_tgt: 'lb*'

# Jobs that the minions run by the clock, and whose returns the master stores.
schedule:
  load:
    function: status.loadavg
    minutes: 10
