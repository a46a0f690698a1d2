site: {{ assigned.site }}
ntp: [ntp1.example.org, ntp2.example.org]
