"""The work of `convert`: who takes which file, looks at tables, tables and sound written."""
