"""What other trainers read, a format each: files that are written, and lists that name them."""
