"""The work of `align` on one session: its streams, their clocks, the windows."""
