"""Settings of feature maps: earlier names, and names that are none."""

from __future__ import annotations

import pytest

from redunet.errors import SettingsError
from redunet.features import FeatureSettings


def test_earlier_names_of_settings_mean_what_they_meant() -> None:
    before = {"n_maps": 2, "cells": 3, "root": True, "statistics_from": "whole-training-set"}
    after = {
        "n_ensemble": 2,
        "pool_cells": 3,
        "sqrt": True,
        "fit_features_on": "whole-training-set",
    }
    features = FeatureSettings(features="patches")
    assert features.changed(before) == features.changed(after)
    with pytest.raises(SettingsError, match=r"expected settings among features, .* got 'cell'"):
        features.changed({"cell": 3})
