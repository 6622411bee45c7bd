"""Transfers of artifacts into their destinations: set-up, plan, download, unpacking, report."""
