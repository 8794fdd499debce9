"""One file a subcommand: file names in, files out."""
