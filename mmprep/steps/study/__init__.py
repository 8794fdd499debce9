"""A study as a table: one row a session, one column a stream."""
