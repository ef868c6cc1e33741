"""How estimators look in a notebook, and what their `transform` returns."""

from __future__ import annotations

from typing import Any

import pytest
import sklearn
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from redunet import ReduNetClassifier, ReduNetError
from redunet.estimators import LinearDiscriminant
from redunet.features import Flatten

pytestmark = pytest.mark.usefixtures("one_thread")
Small = tuple[NDArray[Any], NDArray[Any]]


def test_a_notebook_shows_parameters_and_whether_something_is_learnt(small: Small) -> None:
    new = ReduNetClassifier(n_layers=7)._repr_html_()
    assert "<span>Not fitted</span>" in new
    assert "n_layers" in new
    assert "7" in new
    fitted = ReduNetClassifier(n_layers=7, features=Flatten((12,))).fit(*small)._repr_html_()
    assert "<span>Fitted</span>" in fitted
    assert "Flatten" in fitted
    both = make_pipeline(StandardScaler(), LinearDiscriminant())._repr_html_()
    assert both.count("LinearDiscriminant") > 1


def test_showing_a_model_computes_nothing(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ReduNetClassifier().fit(*small)

    def refused(*_: Any) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(ReduNetClassifier, "_predictor", refused)
    for shown in (model._repr_html_(), make_pipeline(model)._repr_html_()):
        assert "network_" not in shown  # newer versions of scikit-learn have attributes computed
    assert repr(model) == "ReduNetClassifier()"


def test_features_come_in_the_data_frame_that_is_asked_for(small: Small) -> None:
    X, y = small
    model = ReduNetClassifier(n_layers=1).fit(X, y)
    plain = model.transform(X)
    names = [f"redunetclassifier{j}" for j in range(X.shape[1])]
    assert model.get_feature_names_out().tolist() == names
    frame = model.set_output(transform="pandas").transform(X)
    assert (frame.columns.tolist(), (frame.to_numpy() == plain).all()) == (names, True)
    with sklearn.config_context(transform_output="pandas"):
        assert type(ReduNetClassifier(n_layers=1).fit(X, y).transform(X)) is type(frame)
    with pytest.raises(ReduNetError, match="'default', 'pandas' or 'polars', got 'xml'"):
        model.set_output(transform="xml").transform(X)
