"""What was asked for, as artifacts: specs, requirements and lists, with the indexes that they need."""
