"""mmprep and its peers side by side: `python -m tests.bench [NAME...] [--quick]`."""
