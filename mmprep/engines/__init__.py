"""Ordered map over tasks: serial, a process pool, a cluster."""
