"""Many runs: each is planned, done once, kept when it is complete, and a line of one table."""
