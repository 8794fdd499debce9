"""Foreign formats: one file a format, each turning what it claims into tables or signals."""
