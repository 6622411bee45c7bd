"""Creation of a bundle: its request, contents, target, folder and signature."""
