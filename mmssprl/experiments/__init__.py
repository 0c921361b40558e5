"""Many runs: each is planned, runs once and is kept; together they make one table."""
