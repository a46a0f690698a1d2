page:
  title: Tea and cake
  version: 7
  host: {{ grains.id }}.example.org

# Jobs that the minions run by the clock, and whose returns the master stores.
schedule:
  load:
    function: status.loadavg
    minutes: 10
