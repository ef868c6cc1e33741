"""How the documentation site is made from docs/; see mkdocs.yml and ``make docs``."""
