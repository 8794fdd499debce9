"""Records, the data set's header and what can be said of them; no files but the two it is given."""
