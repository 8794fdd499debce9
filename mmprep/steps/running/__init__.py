"""What a step runs by: tasks, their outcomes, the journal that resumes them, the shards."""
