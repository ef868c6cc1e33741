"""A running model behind HTTP, and the page that teaches it; the command is `redunet serve`.

Packages: ``pip install 'redunet[serve]'``.
"""
