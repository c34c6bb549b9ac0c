"""Scenes on the host: what a scene is (`model`), and the importers that fill it; nothing else knows a file format."""
