"""The work of `mfcc` on sounds."""
