"""Tables of labels, joined to records."""
