"""The formats of an offline bundle: channel, index, lists, manifest, tar and parts. Values in, text and files out."""
