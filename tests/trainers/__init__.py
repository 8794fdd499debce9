"""Exports, read by the trainers they are for; `make test-trainers` installs those."""
