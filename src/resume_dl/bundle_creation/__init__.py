"""What a bundle is made of: its request, contents, target, folder and signature."""
