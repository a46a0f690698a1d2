base:
  '*':
    - common
  'A@roles:web':
    - web
  'A@roles:database':
    - database
