"""Docstrings as Python has them: those of estimators are completed when their module is loaded."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Fill in what `redunet.validation.documented` puts in the place of ``{settings}``.

    Defaults that are declared elsewhere, such as ``Settings.eps``, are shown by their values.
    """

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Replace the docstring of a class whose source has a place for settings."""
        if cls.docstring is not None and "{settings}" in cls.docstring.value:
            there = getattr(import_module(cls.module.path), cls.name)
            cls.docstring.value = inspect.cleandoc(there.__doc__)
            defaults = inspect.signature(there).parameters
            for parameter in cls.parameters:
                if parameter.name in defaults and parameter.default is not None:
                    parameter.default = repr(defaults[parameter.name].default)
