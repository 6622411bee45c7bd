"""What a user or a program sees of a run while it goes on, on standard error; ``resume_dl.progress.choose`` decides."""
