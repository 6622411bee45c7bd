"""Progress of a run on standard error, for people or programs; ``resume_dl.progress.choose`` selects the form."""
