"""What follows a wrong digest: sources are compared, corrupt ones left out, their bytes fetched again."""
