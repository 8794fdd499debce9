"""One file a foreign manifest format."""
