database:
  password: not-a-real-password
