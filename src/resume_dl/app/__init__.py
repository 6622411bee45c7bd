"""The use cases. Each is a function or a small class between the command line (or the plugin) and the layers below."""
